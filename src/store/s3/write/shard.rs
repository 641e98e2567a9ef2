//! A shard that is uploaded while it is written.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_sdk_s3::types::CompletedPart;
use bytes::BytesMut;
use tokio::sync::{OnceCell, OwnedSemaphorePermit};

use crate::base::checksum::crc_text;
use crate::base::error::{Error, Result};
use crate::base::reactor::Pending;
use crate::store::ShardWriter;
use crate::store::s3::trouble::RequestError;
use crate::store::s3::write::parts::part_bytes;
use crate::store::s3::write::put::How;
use crate::store::s3::write::upload::{ABORT, Completion, Upload, Whole};
use crate::store::s3::write::{ACTION, Checksums, Writes, token};

/// A shard on its way.
pub(in crate::store::s3) struct S3Shard {
    writes: Arc<Writes>,
    key: String,
    /// Whether it gets the storage class that was asked for.
    in_storage_class: bool,
    part_bytes: usize,
    /// The part being filled, with its place among the held bytes.
    filling: BytesMut,
    permit: Option<OwnedSemaphorePermit>,
    upload: Arc<OnceCell<Upload>>,
    /// The upload's beginning, until it was waited for.
    begun: Option<Pending<()>>,
    /// Whether the shard is uploaded in parts; a smaller one goes in one request.
    in_parts: bool,
    parts: Vec<Pending<CompletedPart>>,
    /// A part failed: the next write tells.
    failed: Arc<AtomicBool>,
    bytes: u64,
    /// Checksums of the parts and their lengths combined.
    sum: crc32fast::Hasher,
    ended: bool,
}

impl S3Shard {
    /// A shard of about so many bytes.
    pub(in crate::store::s3) fn new(
        writes: &Arc<Writes>,
        key: String,
        in_storage_class: bool,
        bytes: u64,
    ) -> Self {
        let mut shard = Self {
            writes: Arc::clone(writes),
            key,
            in_storage_class,
            part_bytes: part_bytes(bytes) as usize,
            filling: BytesMut::new(),
            permit: None,
            upload: Arc::default(),
            begun: None,
            in_parts: false,
            parts: Vec::new(),
            failed: Arc::default(),
            bytes: 0,
            sum: crc32fast::Hasher::new(),
            ended: false,
        };
        // Begun while the first part is filled, so that nobody waits for it.
        if bytes > shard.part_bytes as u64 {
            shard.begin();
        }
        shard
    }

    /// Waits until another part may be held.
    fn hold(&mut self) -> Result<()> {
        if self.permit.is_none() {
            let held = self.writes.parts.hold(self.part_bytes);
            self.permit = self.writes.connection.wait(held);
            self.filling = self.writes.parts.take_spare(self.part_bytes);
        }
        self.tell_failure()
    }

    /// The error of the first part that failed.
    fn tell_failure(&mut self) -> Result<()> {
        if !self.failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        for part in std::mem::take(&mut self.parts) {
            part.wait()?;
        }
        Err(Error::failed(format!(
            "{}: a part failed",
            self.writes.location.object(&self.key)
        )))
    }

    /// Begins the upload, once.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.in_parts, true) {
            return;
        }
        let (writes, key) = (Arc::clone(&self.writes), self.key.clone());
        let in_storage_class = self.in_storage_class;
        let upload = Arc::clone(&self.upload);
        let work = async move {
            let begin = || async {
                let checksums = writes.checksums().await?;
                let token = token();
                let id = writes
                    .begin(&key, checksums, &token, in_storage_class)
                    .await?;
                Ok::<_, RequestError>(Upload {
                    key: key.clone(),
                    id,
                    token,
                    checksums,
                })
            };
            let result = upload.get_or_try_init(begin).await;
            result.map(|_| ()).map_err(|trouble| {
                let call = writes.connection.call(ACTION, writes.location.object(&key));
                writes.connection.explain(&call, &trouble)
            })
        };
        self.begun = Some(self.writes.connection.start(work));
    }

    /// Sends the filled part on its way.
    fn send(&mut self) -> Result<()> {
        self.begin();
        if let Some(begun) = self.begun.take() {
            begun.wait()?;
        }
        let number = i32::try_from(self.parts.len() + 1)
            .map_err(|_| Error::failed(format!("{}: too many parts", self.key)))?;
        let body = std::mem::take(&mut self.filling).freeze();
        let permit = self.permit.take();
        let mut sum = crc32fast::Hasher::new();
        sum.update(&body);
        self.sum.combine(&sum);
        let sum = sum.finalize();
        let (writes, upload) = (Arc::clone(&self.writes), Arc::clone(&self.upload));
        let (key, failed) = (self.key.clone(), Arc::clone(&self.failed));
        let work = async move {
            let _permit = permit;
            let Some(upload) = upload.get() else {
                return Err(Error::failed(format!("{key}: the upload was not begun")));
            };
            let sum = (upload.checksums != Checksums::None).then_some(sum);
            let part = writes
                .part(&key, &upload.id, number, body.clone(), sum)
                .await;
            writes.parts.give_back(body);
            part.map_err(|trouble| {
                failed.store(true, Ordering::Relaxed);
                let object = writes.location.object(&key);
                let call = writes
                    .connection
                    .call(ACTION, format!("{object}, part {number}"));
                writes.connection.explain(&call, &trouble)
            })
        };
        self.parts.push(self.writes.connection.start(work));
        Ok(())
    }
}

impl Write for S3Shard {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.hold().map_err(io::Error::other)?;
        let n = data.len().min(self.part_bytes - self.filling.len());
        self.filling.extend_from_slice(&data[..n]);
        self.bytes += n as u64;
        if self.filling.len() == self.part_bytes {
            self.send().map_err(io::Error::other)?;
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        // A part goes when it is full; the last one with the commit.
        Ok(())
    }
}

impl ShardWriter for S3Shard {
    fn commit(mut self: Box<Self>, crc32: u32) -> Result<()> {
        let connection = Arc::clone(&self.writes.connection);
        let writes = Arc::clone(&self.writes);
        if !self.in_parts {
            self.ended = true;
            let body = std::mem::take(&mut self.filling).freeze();
            let call = connection.call(ACTION, writes.location.object(&self.key));
            let how = How {
                only_if_absent: false,
                in_storage_class: self.in_storage_class,
            };
            let put = connection.wait(writes.put(&self.key, body, how));
            return match put {
                Ok(_) => Ok(()),
                Err(trouble) => Err(connection.explain(&call, &trouble)),
            };
        }
        if !self.filling.is_empty() {
            self.send()?;
        }
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in std::mem::take(&mut self.parts) {
            parts.push(part.wait()?);
        }
        let sum = self.sum.clone().finalize();
        if sum != crc32 {
            return Err(Error::failed(format!(
                "{}: the parts have crc32 {}, the shard {}: this machine's memory is not to be trusted",
                writes.location.object(&self.key),
                crc_text(sum),
                crc_text(crc32)
            )));
        }
        let Some(upload) = self.upload.get() else {
            return Err(Error::failed(format!(
                "{}: the upload was not begun",
                self.key
            )));
        };
        let whole = Whole {
            crc32,
            bytes: self.bytes,
        };
        match connection.wait(writes.complete(upload, &parts, whole)) {
            Completion::Done => {
                self.ended = true;
                Ok(())
            }
            Completion::Refused(error) => Err(error),
            Completion::Unclear(error) => {
                self.ended = true;
                Err(error)
            }
        }
    }
}

impl Drop for S3Shard {
    fn drop(&mut self) {
        if self.ended || !self.in_parts {
            return;
        }
        // Not waiting for its beginning would leave an upload that nobody knows of.
        if let Some(begun) = self.begun.take() {
            _ = begun.wait();
        }
        // Parts under way are given up with their tasks.
        self.parts.clear();
        if let Some(upload) = self.upload.get() {
            let writes = &self.writes;
            writes.connection.wait(async {
                _ = tokio::time::timeout(ABORT, writes.abort(&upload.key, &upload.id)).await;
            });
        }
    }
}
