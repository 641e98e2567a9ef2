//! What a server says of an object without sending it: its size, tag and checksum.

use aws_sdk_s3::types::{ChecksumMode, ChecksumType};

use crate::store::s3::connection::Connection;
use crate::store::s3::crc::crc_from_base64;
use crate::store::s3::location::Location;
use crate::store::s3::read::ACTION;
use crate::store::s3::trouble::RequestError;

/// Metadata that tells an upload of ours from another one of the same name.
pub(super) const TOKEN: &str = "shardpack-token";

/// What HEAD says of an object.
pub(super) struct Head {
    pub(super) size: u64,
    pub(super) tag: Option<String>,
    /// What [`TOKEN`] says.
    pub(super) token: Option<String>,
    /// CRC-32 of the whole content, if the server keeps one.
    pub(super) crc32: Option<u32>,
}

/// Asks for an object's size, tag and checksum; `None` if it is not there.
pub(super) async fn head(
    connection: &Connection,
    location: &Location,
    key: &str,
) -> Result<Option<Head>, RequestError> {
    let call = connection.call(ACTION, location.object(key));
    let answer = connection.attempt(&call, || async {
        let request = connection
            .client
            .head_object()
            .bucket(&location.bucket)
            .key(key)
            .checksum_mode(ChecksumMode::Enabled)
            .set_request_payer(connection.payer());
        request.send().await.map_err(RequestError::from)
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
