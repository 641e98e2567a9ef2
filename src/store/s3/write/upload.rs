//! A multipart upload: begun, its parts, and its end, which is completed or given up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_s3::operation::abort_multipart_upload::builders::AbortMultipartUploadFluentBuilder;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{
    ChecksumAlgorithm, ChecksumType, CompletedMultipartUpload, CompletedPart, ServerSideEncryption,
    StorageClass,
};
use bytes::Bytes;

use crate::base::error::{Error, Kind};
use crate::store::S3Options;
use crate::store::s3::connection::Call;
use crate::store::s3::crc::crc_base64;
use crate::store::s3::head::{TOKEN, head};
use crate::store::s3::trouble::{Cause, RequestError};
use crate::store::s3::write::{ABORT_ACTION, ACTION, Checksums, Writes};

/// Time that giving up an upload may take: the process may be about to end.
pub(super) const ABORT: Duration = Duration::from_secs(3);
/// Completing is given more time than other requests, so many times as much: the server puts the parts together.
pub(super) const COMPLETE_TIMES: u32 = 4;

/// A multipart upload that was begun.
pub(super) struct Upload {
    pub(super) key: String,
    pub(super) id: String,
    /// What tells its object from another one of the same name.
    pub(super) token: String,
    pub(super) checksums: Checksums,
}

/// A whole object, to be compared with what the server put together.
#[derive(Clone, Copy)]
pub(super) struct Whole {
    pub(super) crc32: u32,
    pub(super) bytes: u64,
}

/// How completing ended.
pub(super) enum Completion {
    Done,
    /// The server will not complete it: the upload can be given up.
    Refused(Error),
    /// It may be complete or not: nothing is touched.
    Unclear(Error),
}

/// The storage class that was asked for.
pub(super) fn storage_class(options: &S3Options) -> Option<StorageClass> {
    options.storage_class.as_deref().map(StorageClass::from)
}

/// The server-side encryption that was asked for.
pub(super) fn encryption(options: &S3Options) -> Option<ServerSideEncryption> {
    options.sse.as_deref().map(ServerSideEncryption::from)
}

impl Writes {
    /// Begins a multipart upload; gives its id.
    pub(super) async fn begin(
        &self,
        key: &str,
        checksums: Checksums,
        token: &str,
        in_storage_class: bool,
    ) -> Result<String, RequestError> {
        let connection = &self.connection;
        let options = &connection.options;
        let algorithm = (checksums != Checksums::None).then_some(ChecksumAlgorithm::Crc32);
        let kind = (checksums == Checksums::Full).then_some(ChecksumType::FullObject);
        let call = connection.call(ACTION, self.location.object(key));
        let answer = connection.attempt(&call, || async {
            let request = connection
                .client
                .create_multipart_upload()
                .bucket(&self.location.bucket)
                .key(key)
                .metadata(TOKEN, token)
                .set_checksum_algorithm(algorithm.clone())
                .set_checksum_type(kind.clone())
                .set_storage_class(storage_class(options).filter(|_| in_storage_class))
                .set_server_side_encryption(encryption(options))
                .set_ssekms_key_id(options.sse_kms_key_id.clone())
                .set_tagging(options.tagging.clone())
                .set_request_payer(connection.payer());
            request.send().await.map_err(RequestError::from)
        });
        let answer = answer.await?;
        answer
            .upload_id()
            .map(str::to_owned)
            .ok_or_else(|| RequestError::new(Cause::Other, "the server gave no upload id"))
    }

    /// Uploads a part; `number` begins at 1.
    pub(super) async fn part(
        &self,
        key: &str,
        id: &str,
        number: i32,
        body: Bytes,
        sum: Option<u32>,
    ) -> Result<CompletedPart, RequestError> {
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
            request.send().await.map_err(RequestError::from)
        });
        let answer = answer.await?;
        Ok(CompletedPart::builder()
            .part_number(number)
            .set_e_tag(answer.e_tag().map(str::to_owned))
            .set_checksum_crc32(sum)
            .build())
    }

    /// A call that completes an upload.
    pub(super) fn completing(&self, key: &str) -> Call {
        let mut call = self.connection.call(ACTION, self.location.object(key));
        call.limit *= COMPLETE_TIMES;
        call
    }

    /// Completes an upload, one attempt. `whole` is what the server is to compare the object with, if it does.
    pub(super) async fn complete_once(
        &self,
        key: &str,
        id: &str,
        parts: &[CompletedPart],
        whole: Option<Whole>,
    ) -> Result<(), RequestError> {
        let parts = CompletedMultipartUpload::builder()
            .set_parts(Some(parts.to_vec()))
            .build();
        let bytes = whole.and_then(|whole| i64::try_from(whole.bytes).ok());
        let request = self
            .connection
            .client
            .complete_multipart_upload()
            .bucket(&self.location.bucket)
            .key(key)
            .upload_id(id)
            .multipart_upload(parts)
            .set_checksum_crc32(whole.map(|whole| crc_base64(whole.crc32)))
            .set_checksum_type(whole.map(|_| ChecksumType::FullObject))
            .set_mpu_object_size(bytes)
            .set_request_payer(self.connection.payer());
        request.send().await.map_err(RequestError::from)?;
        Ok(())
    }

    /// Completes an upload, or finds out that it is complete.
    pub(super) async fn complete(
        &self,
        upload: &Upload,
        parts: &[CompletedPart],
        whole: Whole,
    ) -> Completion {
        let connection = &self.connection;
        let key = &upload.key;
        let call = self.completing(key);
        let compared = (upload.checksums == Checksums::Full).then_some(whole);
        // True once an attempt may have been carried out although it failed.
        let unclear = AtomicBool::new(false);
        let result = connection.attempt(&call, || async {
            unclear.store(true, Ordering::Relaxed);
            let trouble = match self.complete_once(key, &upload.id, parts, compared).await {
                Ok(()) => return Ok(()),
                Err(trouble) => trouble,
            };
            let vanished = trouble.code == "NoSuchUpload" || trouble.status == 404;
            if !vanished && !trouble.may_pass(u32::MAX) {
                unclear.store(false, Ordering::Relaxed);
                return Err(trouble);
            }
            match self.is_there(upload, whole).await? {
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
            Err(trouble) => match self.is_there(upload, whole).await {
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
    async fn is_there(&self, upload: &Upload, whole: Whole) -> Result<bool, RequestError> {
        let Some(head) = head(&self.connection, &self.location, &upload.key).await? else {
            return Ok(false);
        };
        let ours = head.token.as_deref() == Some(upload.token.as_str());
        Ok(head.size == whole.bytes && (ours || head.crc32 == Some(whole.crc32)))
    }

    fn abort_request(&self, key: &str, id: &str) -> AbortMultipartUploadFluentBuilder {
        self.connection
            .client
            .abort_multipart_upload()
            .bucket(&self.location.bucket)
            .key(key)
            .upload_id(id)
            .set_request_payer(self.connection.payer())
    }

    /// Gives an upload up, as far as that can be done in a moment; `gc` finds what stays.
    pub(super) async fn abort(&self, key: &str, id: &str) {
        let request = self.abort_request(key, id);
        for _ in 0..3 {
            let trouble = match tokio::time::timeout(ABORT, request.clone().send()).await {
                Ok(Ok(_)) => return,
                Ok(Err(error)) => RequestError::from(error),
                Err(_) => RequestError::new(Cause::Timeout, "no answer in time"),
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
    pub(in crate::store::s3) async fn discard(
        &self,
        key: &str,
        id: &str,
    ) -> Result<(), RequestError> {
        let call = self
            .connection
            .call(ABORT_ACTION, self.location.object(key));
        let result = self.connection.attempt(&call, || async {
            let request = self.abort_request(key, id);
            request.send().await.map_err(RequestError::from)
        });
        match result.await {
            Err(trouble) if trouble.code == "NoSuchUpload" || trouble.status == 404 => Ok(()),
            result => result.map(|_| ()),
        }
    }
}
