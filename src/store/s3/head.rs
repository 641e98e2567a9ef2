//! What a server says of an object without sending it: its size, tag and checksum.

use aws_sdk_s3::types::{ChecksumMode, ChecksumType};

use crate::store::s3::connection::Connection;
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

/// The CRC-32 that is written so.
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

#[cfg(test)]
mod tests {
    use super::*;

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
