//! Objects that are written in one request, and the removal of objects.

use std::sync::atomic::Ordering;

use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;

use crate::store::s3::crc::crc_base64;
use crate::store::s3::trouble::RequestError;
use crate::store::s3::write::upload::{encryption, storage_class};
use crate::store::s3::write::{ACTION, REMOVE_ACTION, Writes};

/// How an object is written in one request.
#[derive(Clone, Copy)]
pub(in crate::store::s3) struct How {
    /// Only if nothing has its name.
    pub(in crate::store::s3) only_if_absent: bool,
    /// In the storage class that was asked for.
    pub(in crate::store::s3) in_storage_class: bool,
}

/// How a small write ended.
pub(in crate::store::s3) enum Put {
    Done,
    /// Something has the name.
    Exists,
}

impl Writes {
    /// Writes an object in one request.
    pub(in crate::store::s3) async fn put(
        &self,
        key: &str,
        body: Bytes,
        how: How,
    ) -> Result<Put, RequestError> {
        let call = self
            .connection
            .call(ACTION, self.location.object(key))
            .up(body.len() as u64);
        let sum = crc_base64(crc32fast::hash(&body));
        let once = || self.put_once(key, &body, &sum, how);
        let attempt = || async {
            match once().await {
                // The header is the one thing in this request that a server may not know, besides the condition.
                Err(trouble)
                    if trouble.is_unknown_request()
                        && !self.refuses_sums.swap(true, Ordering::Relaxed) =>
                {
                    let second = once().await;
                    if !matches!(second, Ok(Put::Done)) {
                        self.refuses_sums.store(false, Ordering::Relaxed);
                    }
                    second
                }
                first => first,
            }
        };
        self.connection.attempt(&call, attempt).await
    }

    async fn put_once(
        &self,
        key: &str,
        body: &Bytes,
        sum: &str,
        how: How,
    ) -> Result<Put, RequestError> {
        let connection = &self.connection;
        let options = &connection.options;
        let sums = !self.refuses_sums.load(Ordering::Relaxed);
        let request = connection
            .client
            .put_object()
            .bucket(&self.location.bucket)
            .key(key)
            .body(ByteStream::from(body.clone()))
            .set_checksum_crc32(sums.then(|| sum.to_owned()))
            .set_if_none_match(how.only_if_absent.then(|| "*".to_owned()))
            .set_storage_class(storage_class(options).filter(|_| how.in_storage_class))
            .set_server_side_encryption(encryption(options))
            .set_ssekms_key_id(options.sse_kms_key_id.clone())
            .set_tagging(options.tagging.clone())
            .set_request_payer(connection.payer());
        let mut request = request.customize();
        if connection.untouchable {
            request = request.disable_payload_signing();
        }
        match request.send().await.map_err(RequestError::from) {
            Ok(_) => Ok(Put::Done),
            Err(trouble) if how.only_if_absent && trouble.is_condition() => Ok(Put::Exists),
            Err(trouble) => Err(trouble),
        }
    }

    /// Removes an object; no error if it is gone already.
    pub(in crate::store::s3) async fn remove(&self, key: &str) -> Result<(), RequestError> {
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
            request.send().await.map_err(RequestError::from)
        });
        match removed.await {
            Err(trouble) if trouble.is_missing() => Ok(()),
            removed => removed.map(|_| ()),
        }
    }
}
