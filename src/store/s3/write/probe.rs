//! What the server does with checksums of multipart uploads, learnt by one small upload.

use std::sync::atomic::Ordering;

use bytes::Bytes;

use crate::store::s3::trouble::RequestError;
use crate::store::s3::write::upload::Whole;
use crate::store::s3::write::{Checksums, REMOVE_ACTION, Writes, token};

impl Writes {
    /// What the server does with checksums of multipart uploads. Found out once, by a small upload that is completed with a
    /// wrong checksum: echoes and documentation say less than that.
    pub(super) async fn checksums(&self) -> Result<Checksums, RequestError> {
        self.checksums
            .get_or_try_init(|| self.probe())
            .await
            .copied()
    }

    async fn probe(&self) -> Result<Checksums, RequestError> {
        let key = self.location.key(&format!("{}-{}", self.probe, token()));
        for sent in [Checksums::Full, Checksums::Parts] {
            let id = match self.begin(&key, sent, &token(), false).await {
                Ok(id) => id,
                Err(trouble) if trouble.is_unknown_request() => continue,
                Err(trouble) => return Err(trouble),
            };
            let probed = self.probe_upload(&key, &id, sent).await;
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
    async fn probe_upload(
        &self,
        key: &str,
        id: &str,
        sent: Checksums,
    ) -> Result<Checksums, RequestError> {
        const BODY: &[u8] = b"shardpack";
        let sum = crc32fast::hash(BODY);
        let part = self.part(key, id, 1, Bytes::from_static(BODY), Some(sum));
        let parts = [part.await?];
        if sent != Checksums::Full {
            return Ok(Checksums::Parts);
        }
        let wrong = Some(Whole {
            crc32: !sum,
            bytes: BODY.len() as u64,
        });
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
