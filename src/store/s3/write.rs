//! Writing: a shard is uploaded in parts while it is made; a small one, and every other object, in one request.
//!
//! Parts are in memory with a CRC-32 of our own. Their sums combine into that of the shard, which the server compares with what
//! it put together, where it can. Completing is ambiguous: an error may come although the object is there. Then the object is
//! looked at, its token, size and checksum, before anything else is tried; nothing is uploaded twice and nothing is removed.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{
    ChecksumAlgorithm, ChecksumMode, ChecksumType, CompletedMultipartUpload, CompletedPart,
    ServerSideEncryption, StorageClass,
};
use bytes::{Bytes, BytesMut};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

use super::Location;
use super::connection::{Call, Connection, S3Options};
use super::trouble::{Sort, Trouble};
use crate::base::error::{Error, Kind, Result};
use crate::base::reactor::Pending;
use crate::store::ShardWriter;

/// Bytes of a part: what reaches the full rate of a connection; larger only where 10,000 of them would not do.
const PART_BYTES: u64 = 8 << 20;
/// Most parts of an upload. The limit of S3 is 10,000; a shard may come out a little larger than planned.
const MOST_PARTS: u64 = 9_500;
/// Parts of all shards held at once: at most this much, or a quarter of the memory.
const HELD_BYTES: std::ops::RangeInclusive<u64> = 2 * PART_BYTES..=512 << 20;
/// Unit in which held bytes are counted.
const UNIT: u64 = 1 << 20;
/// Time that giving up an upload may take: the process may be about to end.
const ABORT: Duration = Duration::from_secs(3);
/// Completing is given more time than other requests, so many times as much: the server puts the parts together.
const COMPLETE_TIMES: u32 = 4;
/// Metadata that tells our upload from another one of the same name.
const TOKEN: &str = "shardpack-token";
/// Name of the object that the checksum probe begins to upload; it is never completed where the probe succeeds.
pub(super) const PROBE: &str = "_shardpack/probe";
/// The permission that writing needs.
pub(super) const ACTION: &str = "s3:PutObject";
pub(super) const ABORT_ACTION: &str = "s3:AbortMultipartUpload";
pub(super) const REMOVE_ACTION: &str = "s3:DeleteObject";

/// What the server does with checksums that are sent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checksums {
    /// It compares a whole multipart object with its CRC-32, and keeps that.
    Full,
    /// It takes a CRC-32 with each part.
    Parts,
    /// It refuses requests that have one.
    None,
}

/// What all writes to one destination share.
pub(super) struct Writes {
    pub(super) connection: Arc<Connection>,
    pub(super) location: Location,
    /// Found out by the first that needs to know.
    checksums: OnceCell<Checksums>,
    /// The server refused a request because of its checksum header.
    refuses_sums: AtomicBool,
    held: Arc<Semaphore>,
    held_bytes: u64,
    /// Memory of parts that have gone: fresh pages cost more than filling them.
    spare: Mutex<Vec<BytesMut>>,
}

/// The part size for a shard of so many bytes.
pub(super) fn part_bytes(shard_bytes: u64) -> u64 {
    shard_bytes
        .div_ceil(MOST_PARTS)
        .next_multiple_of(UNIT)
        .max(PART_BYTES)
}

/// A CRC-32 as S3 writes it: base64 of its big-endian bytes.
pub(super) fn crc_base64(crc32: u32) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    // 32 bits and 4 of padding are six digits.
    let bits = u64::from(crc32) << 4;
    let digits = (0..6)
        .rev()
        .map(|i| DIGITS[(bits >> (6 * i)) as usize & 63] as char);
    digits.chain("==".chars()).collect()
}

/// Tells uploads apart; neither secret nor part of any content.
fn token() -> String {
    format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..))
}

fn class(options: &S3Options) -> Option<StorageClass> {
    options.storage_class.as_deref().map(StorageClass::from)
}

fn encryption(options: &S3Options) -> Option<ServerSideEncryption> {
    options.sse.as_deref().map(ServerSideEncryption::from)
}

/// How a small write ended.
pub(super) enum Put {
    Done,
    /// Something has the name.
    Exists,
}

impl Writes {
    pub(super) fn new(connection: Arc<Connection>, location: Location, memory: u64) -> Self {
        let held_bytes = (memory / 4).clamp(*HELD_BYTES.start(), *HELD_BYTES.end());
        Self {
            connection,
            location,
            checksums: OnceCell::new(),
            refuses_sums: AtomicBool::new(false),
            held: Arc::new(Semaphore::new((held_bytes / UNIT) as usize)),
            held_bytes,
            spare: Mutex::default(),
        }
    }

    /// Memory for a part, used or new.
    fn take_spare(&self, bytes: usize) -> BytesMut {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        match spare.pop() {
            Some(buffer) if buffer.capacity() >= bytes => buffer,
            _ => BytesMut::with_capacity(bytes),
        }
    }

    /// Takes the memory of a part back, unless something still looks at it.
    fn give_back(&self, body: Bytes) {
        if let Ok(mut buffer) = body.try_into_mut() {
            buffer.clear();
            let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
            spare.push(buffer);
        }
    }

    /// Memory that all shards being written take together.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Writes an object in one request. With `absent`, only if nothing has its name.
    pub(super) async fn put(
        &self,
        key: &str,
        body: Bytes,
        absent: bool,
        shard: bool,
    ) -> Result<Put, Trouble> {
        let connection = &self.connection;
        let call = connection
            .call(ACTION, self.location.object(key))
            .up(body.len() as u64);
        let sum = crc_base64(crc32fast::hash(&body));
        let once = || async {
            let sums = !self.refuses_sums.load(Ordering::Relaxed);
            let request = connection
                .client
                .put_object()
                .bucket(&self.location.bucket)
                .key(key)
                .body(ByteStream::from(body.clone()))
                .set_checksum_crc32(sums.then(|| sum.clone()))
                .set_if_none_match(absent.then(|| "*".to_owned()))
                .set_storage_class(class(&connection.options).filter(|_| shard))
                .set_server_side_encryption(encryption(&connection.options))
                .set_ssekms_key_id(connection.options.sse_kms_key_id.clone())
                .set_tagging(connection.options.tagging.clone())
                .set_request_payer(connection.payer());
            let mut request = request.customize();
            if connection.untouchable {
                request = request.disable_payload_signing();
            }
            request.send().await.map_err(Trouble::from)
        };
        let attempt = || async {
            match once().await {
                Ok(_) => Ok(Put::Done),
                Err(trouble) if absent && trouble.is_condition() => Ok(Put::Exists),
                // The header is the one thing in this request that a server may not know, besides the condition.
                Err(trouble)
                    if trouble.is_unknown_request()
                        && !self.refuses_sums.swap(true, Ordering::Relaxed) =>
                {
                    let second = once().await;
                    if second.is_err() {
                        self.refuses_sums.store(false, Ordering::Relaxed);
                    }
                    match second {
                        Ok(_) => Ok(Put::Done),
                        Err(trouble) if absent && trouble.is_condition() => Ok(Put::Exists),
                        Err(trouble) => Err(trouble),
                    }
                }
                Err(trouble) => Err(trouble),
            }
        };
        connection.attempt(&call, attempt).await
    }

    /// What the server does with checksums of multipart uploads. Found out once, by a small upload that is completed with a
    /// wrong checksum: echoes and documentation say less than that.
    async fn checksums(&self) -> Result<Checksums, Trouble> {
        self.checksums
            .get_or_try_init(|| self.probe())
            .await
            .copied()
    }

    async fn probe(&self) -> Result<Checksums, Trouble> {
        let key = self.location.key(&format!("{PROBE}-{}", token()));
        for kind in [Some(ChecksumType::FullObject), None] {
            let full = kind.is_some();
            let id = match self.begin(&key, Some(kind), &token(), false).await {
                Ok(id) => id,
                Err(trouble) if trouble.is_unknown_request() => continue,
                Err(trouble) => return Err(trouble),
            };
            let probed = self.probe_upload(&key, &id, full).await;
            self.abort(&key, &id).await;
            match probed {
                Ok(found) => {
                    tracing::debug!(destination = %self.location, checksums = ?found, "checksums probed");
                    return Ok(found);
                }
                Err(trouble) if trouble.is_unknown_request() => {}
                Err(trouble) => return Err(trouble),
            }
        }
        tracing::warn!(
            "{}: the server takes no CRC-32: only the signature, or TLS, protects what is sent",
            self.location
        );
        self.refuses_sums.store(true, Ordering::Relaxed);
        Ok(Checksums::None)
    }

    /// What the server does with the checksums of this upload. An error that it does not know them is one of its answers.
    async fn probe_upload(&self, key: &str, id: &str, full: bool) -> Result<Checksums, Trouble> {
        const BODY: &[u8] = b"shardpack";
        let sum = crc32fast::hash(BODY);
        let part = self.part(key, id, 1, Bytes::from_static(BODY), Some(sum));
        let parts = [part.await?];
        if !full {
            return Ok(Checksums::Parts);
        }
        let wrong = Some((!sum, BODY.len() as u64));
        let complete = || self.complete_once(key, id, &parts, wrong);
        match self
            .connection
            .attempt(&self.completing(key), complete)
            .await
        {
            Err(trouble) if trouble.status != 404 && (400..500).contains(&trouble.status) => {
                Ok(Checksums::Full)
            }
            // Not found: an earlier attempt was carried out, and its reply lost.
            Err(trouble) if trouble.status != 404 => Err(trouble),
            _ => {
                self.remove_probe(key).await;
                Ok(Checksums::Parts)
            }
        }
    }

    /// Begins a multipart upload; `kind` is `None` without checksums, `Some(None)` for sums of parts only.
    async fn begin(
        &self,
        key: &str,
        kind: Option<Option<ChecksumType>>,
        token: &str,
        shard: bool,
    ) -> Result<String, Trouble> {
        let connection = &self.connection;
        let call = connection.call(ACTION, self.location.object(key));
        let answer = connection.attempt(&call, || async {
            let request = connection
                .client
                .create_multipart_upload()
                .bucket(&self.location.bucket)
                .key(key)
                .metadata(TOKEN, token)
                .set_checksum_algorithm(kind.is_some().then_some(ChecksumAlgorithm::Crc32))
                .set_checksum_type(kind.clone().flatten())
                .set_storage_class(class(&connection.options).filter(|_| shard))
                .set_server_side_encryption(encryption(&connection.options))
                .set_ssekms_key_id(connection.options.sse_kms_key_id.clone())
                .set_tagging(connection.options.tagging.clone())
                .set_request_payer(connection.payer());
            request.send().await.map_err(Trouble::from)
        });
        let answer = answer.await?;
        answer
            .upload_id()
            .map(str::to_owned)
            .ok_or_else(|| Trouble::new(Sort::Other, "the server gave no upload id"))
    }

    async fn part(
        &self,
        key: &str,
        id: &str,
        number: i32,
        body: Bytes,
        sum: Option<u32>,
    ) -> Result<CompletedPart, Trouble> {
        let connection = &self.connection;
        let call = connection
            .call(ACTION, self.location.object(key))
            .up(body.len() as u64);
        let sum = sum.map(crc_base64);
        let answer = connection.attempt(&call, || async {
            let request = connection
                .client
                .upload_part()
                .bucket(&self.location.bucket)
                .key(key)
                .upload_id(id)
                .part_number(number)
                .body(ByteStream::from(body.clone()))
                .set_checksum_crc32(sum.clone())
                .set_request_payer(connection.payer());
            let mut request = request.customize();
            if connection.untouchable {
                request = request.disable_payload_signing();
            }
            request.send().await.map_err(Trouble::from)
        });
        let answer = answer.await?;
        Ok(CompletedPart::builder()
            .part_number(number)
            .set_e_tag(answer.e_tag().map(str::to_owned))
            .set_checksum_crc32(sum)
            .build())
    }

    fn completing(&self, key: &str) -> Call {
        let mut call = self.connection.call(ACTION, self.location.object(key));
        call.limit *= COMPLETE_TIMES;
        call
    }

    /// Completes an upload, one attempt. `sums` are the CRC-32 and the size of the whole, if the server looks at them.
    async fn complete_once(
        &self,
        key: &str,
        id: &str,
        parts: &[CompletedPart],
        sums: Option<(u32, u64)>,
    ) -> Result<(), Trouble> {
        let parts = CompletedMultipartUpload::builder()
            .set_parts(Some(parts.to_vec()))
            .build();
        let size = sums.and_then(|(_, size)| i64::try_from(size).ok());
        let request = self
            .connection
            .client
            .complete_multipart_upload()
            .bucket(&self.location.bucket)
            .key(key)
            .upload_id(id)
            .multipart_upload(parts)
            .set_checksum_crc32(sums.map(|(sum, _)| crc_base64(sum)))
            .set_checksum_type(sums.map(|_| ChecksumType::FullObject))
            .set_mpu_object_size(size)
            .set_request_payer(self.connection.payer());
        request.send().await.map_err(Trouble::from)?;
        Ok(())
    }

    /// Completes an upload, or finds out that it is complete.
    async fn complete(
        &self,
        upload: &Upload,
        parts: &[CompletedPart],
        sum: u32,
        size: u64,
    ) -> Completion {
        let connection = &self.connection;
        let key = &upload.key;
        let call = self.completing(key);
        let sums = (upload.checksums == Checksums::Full).then_some((sum, size));
        // True once an attempt may have been carried out although it failed.
        let unclear = AtomicBool::new(false);
        let result = connection.attempt(&call, || async {
            unclear.store(true, Ordering::Relaxed);
            let trouble = match self.complete_once(key, &upload.id, parts, sums).await {
                Ok(()) => return Ok(()),
                Err(trouble) => trouble,
            };
            let vanished = trouble.code == "NoSuchUpload" || trouble.status == 404;
            if !vanished && !trouble.may_pass(u32::MAX) {
                unclear.store(false, Ordering::Relaxed);
                return Err(trouble);
            }
            match self.is_there(upload, sum, size).await? {
                true => Ok(()),
                false => Err(trouble),
            }
        });
        match result.await {
            Ok(()) => Completion::Done,
            Err(trouble) if !unclear.load(Ordering::Relaxed) => {
                Completion::Refused(connection.explain(&call, &trouble))
            }
            // The last attempt may have run out of time instead of failing: then only a look can tell.
            Err(trouble) => match self.is_there(upload, sum, size).await {
                Ok(true) => Completion::Done,
                Ok(false) if trouble.code == "NoSuchUpload" => Completion::Unclear(Error::new(
                    Kind::Transient,
                    format!(
                        "{}: its upload vanished before it was complete: run again",
                        call.object
                    ),
                )),
                _ => Completion::Unclear(connection.explain(&call, &trouble)),
            },
        }
    }

    /// Whether the object is what this upload was to make: its token and size, or its size and checksum.
    async fn is_there(&self, upload: &Upload, sum: u32, size: u64) -> Result<bool, Trouble> {
        let Some(head) = head(&self.connection, &self.location, &upload.key).await? else {
            return Ok(false);
        };
        let ours = head.token.as_deref() == Some(upload.token.as_str());
        Ok(head.size == size && (ours || head.crc32 == Some(sum)))
    }

    /// Gives an upload up, as far as that can be done in a moment; `gc` finds what stays.
    async fn abort(&self, key: &str, id: &str) {
        let request = self
            .connection
            .client
            .abort_multipart_upload()
            .bucket(&self.location.bucket)
            .key(key)
            .upload_id(id)
            .set_request_payer(self.connection.payer());
        for _ in 0..3 {
            let trouble = match tokio::time::timeout(ABORT, request.clone().send()).await {
                Ok(Ok(_)) => return,
                Ok(Err(error)) => Trouble::from(error),
                Err(_) => Trouble::new(Sort::Timeout, "no answer in time"),
            };
            if trouble.code == "NoSuchUpload" || trouble.status == 404 {
                return;
            }
            if !trouble.may_pass(u32::MAX) {
                let object = self.location.object(key);
                tracing::warn!("{}", trouble.explain(ABORT_ACTION, &object, None));
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Gives up an upload that a run left behind; one that is gone already is no error.
    pub(super) async fn discard(&self, key: &str, id: &str) -> Result<(), Trouble> {
        let call = self
            .connection
            .call(ABORT_ACTION, self.location.object(key));
        let result = self.connection.attempt(&call, || async {
            let request = self
                .connection
                .client
                .abort_multipart_upload()
                .bucket(&self.location.bucket)
                .key(key)
                .upload_id(id)
                .set_request_payer(self.connection.payer());
            request.send().await.map_err(Trouble::from)
        });
        match result.await {
            Err(trouble) if trouble.code == "NoSuchUpload" || trouble.status == 404 => Ok(()),
            result => result.map(|_| ()),
        }
    }

    /// Removes an object; no error if it is gone already.
    pub(super) async fn remove(&self, key: &str) -> Result<(), Trouble> {
        let call = self
            .connection
            .call(REMOVE_ACTION, self.location.object(key));
        let removed = self.connection.attempt(&call, || async {
            let request = self
                .connection
                .client
                .delete_object()
                .bucket(&self.location.bucket)
                .key(key)
                .set_request_payer(self.connection.payer());
            request.send().await.map_err(Trouble::from)
        });
        match removed.await {
            Err(trouble) if trouble.is_missing() => Ok(()),
            removed => removed.map(|_| ()),
        }
    }

    /// Removes the object of a probe; that it cannot is no reason to fail.
    async fn remove_probe(&self, key: &str) {
        if let Err(trouble) = self.remove(key).await {
            let call = self
                .connection
                .call(REMOVE_ACTION, self.location.object(key));
            tracing::warn!("{}", self.connection.explain(&call, &trouble));
        }
    }
}

/// How completing ended.
enum Completion {
    Done,
    /// The server will not complete it: the upload can be given up.
    Refused(Error),
    /// It may be complete or not: nothing is touched.
    Unclear(Error),
}

/// What HEAD says of an object.
pub(super) struct Head {
    pub(super) size: u64,
    pub(super) tag: Option<String>,
    token: Option<String>,
    /// CRC-32 of the whole content, if the server keeps one.
    pub(super) crc32: Option<u32>,
}

/// Asks for an object's size, tag and checksum; `None` if it is not there.
pub(super) async fn head(
    connection: &Connection,
    location: &Location,
    key: &str,
) -> Result<Option<Head>, Trouble> {
    let call = connection.call(super::read::ACTION, location.object(key));
    let answer = connection.attempt(&call, || async {
        let request = connection
            .client
            .head_object()
            .bucket(&location.bucket)
            .key(key)
            .checksum_mode(ChecksumMode::Enabled)
            .set_request_payer(connection.payer());
        request.send().await.map_err(Trouble::from)
    });
    let answer = match answer.await {
        Err(trouble) if trouble.is_missing() => return Ok(None),
        answer => answer?,
    };
    // A checksum of the parts' checksums says nothing of the content; servers that do not tell which it is show it by the tag.
    let tag = answer.e_tag().map(|tag| tag.trim_matches('"').to_owned());
    let full = match answer.checksum_type() {
        Some(kind) => *kind == ChecksumType::FullObject,
        None => tag.as_ref().is_some_and(|tag| !tag.contains('-')),
    };
    let crc32 = answer
        .checksum_crc32()
        .filter(|_| full)
        .and_then(crc_from_base64);
    Ok(Some(Head {
        size: u64::try_from(answer.content_length().unwrap_or(0)).unwrap_or(0),
        tag,
        token: answer
            .metadata()
            .and_then(|metadata| metadata.get(TOKEN))
            .cloned(),
        crc32,
    }))
}

fn crc_from_base64(text: &str) -> Option<u32> {
    let digits = text.strip_suffix("==").filter(|digits| digits.len() == 6)?;
    let mut bits = 0u64;
    for c in digits.bytes() {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u64::from(digit);
    }
    u32::try_from(bits >> 4).ok()
}

/// A multipart upload that was begun.
struct Upload {
    key: String,
    id: String,
    token: String,
    checksums: Checksums,
}

/// A shard on its way.
pub(super) struct Shard {
    writes: Arc<Writes>,
    key: String,
    /// Whether it is a shard; other objects are always in the standard storage class.
    shard: bool,
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

impl Shard {
    pub(super) fn new(writes: &Arc<Writes>, key: String, shard: bool, bytes: u64) -> Self {
        let mut shard = Self {
            writes: Arc::clone(writes),
            key,
            shard,
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
            // One part always fits, however large.
            let units = (self.part_bytes as u64).min(self.writes.held_bytes) / UNIT;
            let held = Arc::clone(&self.writes.held);
            let permit = self
                .writes
                .connection
                .wait(held.acquire_many_owned(units as u32));
            self.permit = permit.ok();
            self.filling = self.writes.take_spare(self.part_bytes);
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
        let (writes, key, shard) = (Arc::clone(&self.writes), self.key.clone(), self.shard);
        let upload = Arc::clone(&self.upload);
        let work = async move {
            let begin = || async {
                let checksums = writes.checksums().await?;
                let kind = match checksums {
                    Checksums::Full => Some(Some(ChecksumType::FullObject)),
                    Checksums::Parts => Some(None),
                    Checksums::None => None,
                };
                let token = token();
                let id = writes.begin(&key, kind, &token, shard).await?;
                Ok::<_, Trouble>(Upload {
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
            writes.give_back(body);
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

impl Write for Shard {
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

impl ShardWriter for Shard {
    fn commit(mut self: Box<Self>, crc32: u32) -> Result<()> {
        let connection = Arc::clone(&self.writes.connection);
        let writes = Arc::clone(&self.writes);
        if !self.in_parts {
            self.ended = true;
            let body = std::mem::take(&mut self.filling).freeze();
            let call = connection.call(ACTION, writes.location.object(&self.key));
            let put = connection.wait(writes.put(&self.key, body, false, self.shard));
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
                crate::base::checksum::crc_text(sum),
                crate::base::checksum::crc_text(crc32)
            )));
        }
        let Some(upload) = self.upload.get() else {
            return Err(Error::failed(format!(
                "{}: the upload was not begun",
                self.key
            )));
        };
        match connection.wait(writes.complete(upload, &parts, crc32, self.bytes)) {
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

impl Drop for Shard {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fit_the_limits_of_s3() {
        assert_eq!(part_bytes(0), 8 << 20);
        assert_eq!(part_bytes(1_000_000_000), 8 << 20);
        for shard in [76 << 30, 1 << 40, 40 << 40] {
            let part = part_bytes(shard);
            assert!(shard.div_ceil(part) <= 10_000 && part >= 5 << 20, "{shard}");
            assert_eq!(part % UNIT, 0);
        }
    }

    #[test]
    fn checksums_are_written_as_s3_writes_them() {
        // CRC-32 of "123456789", as AWS's own examples have it.
        assert_eq!(crc_base64(0xcbf4_3926), "y/Q5Jg==");
        for crc32 in [0, 1, 0xcbf4_3926, u32::MAX] {
            assert_eq!(crc_from_base64(&crc_base64(crc32)), Some(crc32));
        }
        for text in ["", "y/Q5Jg==-3", "y/Q5Jg", "y Q5Jg==", "yy/Q5Jg=="] {
            assert_eq!(crc_from_base64(text), None, "{text}");
        }
    }
}
