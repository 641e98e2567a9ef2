//! Objects that the server puts together of what it holds already: parts of an upload are copied from other objects, and no byte of theirs
//! passes through here.
//!
//! What comes of it is compared by the server with a CRC-32 that is known before, as of every upload of ours. Where it cannot do that, or
//! does not copy, nothing is made, and why is said: then the bytes go through here, which is always right.

use std::sync::Arc;

use aws_sdk_s3::types::CompletedPart;

use crate::base::checksum::crc_text;
use crate::base::error::{Error, Kind, Result};
use crate::base::reactor::Pending;
use crate::store::s3::head::{Head, head};
use crate::store::s3::location::{Location, encode_key};
use crate::store::s3::read;
use crate::store::s3::trouble::{Cause, RequestError};
use crate::store::s3::write::upload::{ABORT, COMPLETE_TIMES, Completion, Upload, Whole};
use crate::store::s3::write::{ACTION, Checksums, Writes, token};
use crate::store::{Assembled, Piece};

/// Bytes of a copied part at most: several at once are faster than one, and a request is paid for.
const COPIED_BYTES: u64 = 128 << 20;
/// Smallest part but the last.
const LEAST_BYTES: u64 = 5 << 20;
/// Most parts of an upload.
const MOST_PARTS: usize = 10_000;

/// A part of an upload, as it lies in another object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CopiedPart {
    /// Number of the piece that it is of.
    piece: usize,
    offset: u64,
    bytes: u64,
}

/// An object that is copied from, in the state in which it was found.
#[derive(Clone)]
struct From {
    location: Location,
    key: String,
    tag: Option<String>,
}

/// Makes the object `key` of these pieces; see [`crate::store::Sink::assemble`].
pub(in crate::store::s3) fn assemble(
    writes: &Arc<Writes>,
    key: &str,
    in_storage_class: bool,
    pieces: &[Piece<'_>],
    crc32: u32,
) -> Result<Assembled> {
    let parts = match parts_of(pieces) {
        Ok(parts) => parts,
        Err(why) => return Ok(Assembled::Cannot(why)),
    };
    let connection = &writes.connection;
    let failed = |trouble: &RequestError| {
        let call = connection.call(ACTION, writes.location.object(key));
        connection.explain(&call, trouble)
    };
    let checksums = connection.wait(writes.checksums());
    if checksums.map_err(|trouble| failed(&trouble))? != Checksums::Full {
        let why = "the server does not compare what it puts together with a checksum";
        return Ok(Assembled::Cannot(why.to_owned()));
    }
    let from = look(writes, pieces)?;
    let token = token();
    let begun = writes.begin(key, Checksums::Full, &token, in_storage_class);
    let upload = Upload {
        key: key.to_owned(),
        id: connection.wait(begun).map_err(|trouble| failed(&trouble))?,
        token,
        checksums: Checksums::Full,
    };
    let abort = || {
        connection.wait(async {
            _ = tokio::time::timeout(ABORT, writes.abort(&upload.key, &upload.id)).await;
        });
    };
    let copied = match copy_parts(writes, &upload, &from, &parts, pieces) {
        Ok(copied) => copied,
        Err(trouble) => {
            abort();
            return trouble.map(Assembled::Cannot);
        }
    };
    let whole = Whole {
        crc32,
        bytes: pieces.iter().map(|piece| piece.bytes).sum(),
    };
    match connection.wait(writes.complete(&upload, &copied, whole)) {
        Completion::Done => Ok(Assembled::Done),
        Completion::Refused(error) => {
            abort();
            Ok(Assembled::Cannot(error.to_string()))
        }
        Completion::Unclear(error) => Err(error),
    }
}

/// The parts that pieces are copied in, or why they cannot be.
fn parts_of(pieces: &[Piece<'_>]) -> Result<Vec<CopiedPart>, String> {
    let mut parts = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        if piece.bytes < LEAST_BYTES && number + 1 < pieces.len() {
            return Err(format!(
                "{} has {} bytes, and S3 joins no part of less than {LEAST_BYTES} to another one",
                piece.name, piece.bytes
            ));
        }
        let count = piece.bytes.div_ceil(COPIED_BYTES).max(1);
        let end = |at: u64| (u128::from(piece.bytes) * u128::from(at) / u128::from(count)) as u64;
        parts.extend((0..count).map(|at| CopiedPart {
            piece: number,
            offset: end(at),
            bytes: end(at + 1) - end(at),
        }));
    }
    match parts.len() {
        1..=MOST_PARTS => Ok(parts),
        count => Err(format!("{count} parts are no upload of S3")),
    }
}

/// Looks at the objects that pieces are of; one that is not what it should be is an error.
fn look(writes: &Writes, pieces: &[Piece<'_>]) -> Result<Vec<From>> {
    let connection = &writes.connection;
    let mut looks = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let location = Location::parse(piece.location)?;
        let key = location.key(piece.name);
        let asked = (Arc::clone(connection), location.clone(), key.clone());
        let look = connection.start(async move {
            let (connection, location, key) = asked;
            head(&connection, &location, &key).await.map_err(|trouble| {
                let call = connection.call(read::ACTION, location.object(&key));
                connection.explain(&call, &trouble)
            })
        });
        looks.push((location, key, look));
    }
    let seen = |((location, key, look), piece): ((Location, String, _), &Piece<'_>)| {
        let look: Pending<Option<Head>> = look;
        let name = location.object(&key);
        let head = look
            .wait()?
            .ok_or_else(|| Error::failed(format!("{name}: no such object")))?;
        let differs = |what: String| Error::new(Kind::Damage, format!("{name}: {what}"));
        if head.size != piece.of_bytes {
            let (is, said) = (head.size, piece.of_bytes);
            return Err(differs(format!("{is} bytes, the manifest says {said}")));
        }
        if let Some(kept) = head.crc32.filter(|kept| *kept != piece.of_crc32) {
            let [is, said] = [kept, piece.of_crc32].map(crc_text);
            return Err(differs(format!("crc32 {is}, the manifest says {said}")));
        }
        let tag = head.tag;
        Ok(From { location, key, tag })
    };
    looks.into_iter().zip(pieces).map(seen).collect()
}

/// Has the server copy all parts. The error is why it does not, or one that ends the run.
fn copy_parts(
    writes: &Arc<Writes>,
    upload: &Upload,
    from: &[From],
    parts: &[CopiedPart],
    pieces: &[Piece<'_>],
) -> std::result::Result<Vec<CompletedPart>, Result<String>> {
    let connection = &writes.connection;
    let mut started = Vec::with_capacity(parts.len());
    for (number, part) in (1..).zip(parts) {
        let (from, part) = (from[part.piece].clone(), part.clone());
        // Without a range all of an object is meant, however small.
        let is_whole = part.bytes == pieces[part.piece].of_bytes;
        let (writes, key, id) = (Arc::clone(writes), upload.key.clone(), upload.id.clone());
        started.push(connection.start(async move {
            let copied = writes.copy_part(&key, &id, number, &from, &part, is_whole);
            // Whether it ends the run is not for the task to say.
            Ok(copied.await.map_err(|trouble| {
                let object = from.location.object(&from.key);
                let call = writes.connection.call(read::ACTION, object.clone());
                if trouble.is_condition() {
                    let what = format!("{object} was replaced while it was copied: run again");
                    return Err(Error::failed(what));
                }
                let error = writes.connection.explain(&call, &trouble);
                let refused = trouble.cause == Cause::Answer
                    && (300..502).contains(&trouble.status)
                    && !trouble.is_missing()
                    && !trouble.may_pass(u32::MAX);
                match refused || trouble.is_unknown_request() {
                    true => Ok(error.to_string()),
                    false => Err(error),
                }
            }))
        }));
    }
    let ended = |copied: Pending<_>| copied.wait().unwrap_or_else(|e| Err(Err(e)));
    started.into_iter().map(ended).collect()
}

/// A bucket and a key as the header has them that says what to copy.
fn encoded(bucket: &str, key: &str) -> String {
    let mut text = format!("{bucket}/");
    encode_key(key, &mut text);
    text
}

impl Writes {
    /// Copies a part of an upload from another object; `number` begins at 1.
    async fn copy_part(
        &self,
        key: &str,
        id: &str,
        number: i32,
        from: &From,
        part: &CopiedPart,
        is_whole: bool,
    ) -> Result<CompletedPart, RequestError> {
        let connection = &self.connection;
        let mut call = connection.call(ACTION, self.location.object(key));
        call.limit *= COMPLETE_TIMES;
        let last = (part.offset + part.bytes).saturating_sub(1);
        let range = (!is_whole).then(|| format!("bytes={}-{last}", part.offset));
        let answer = connection.attempt(&call, || async {
            let request = connection
                .client
                .upload_part_copy()
                .bucket(&self.location.bucket)
                .key(key)
                .upload_id(id)
                .part_number(number)
                .copy_source(encoded(&from.location.bucket, &from.key))
                .set_copy_source_if_match(from.tag.as_ref().map(|tag| format!("\"{tag}\"")))
                .set_copy_source_range(range.clone())
                .set_request_payer(connection.payer());
            request.send().await.map_err(RequestError::from)
        });
        let answer = answer.await?;
        let copied = answer.copy_part_result();
        Ok(CompletedPart::builder()
            .part_number(number)
            .set_e_tag(copied.and_then(|part| part.e_tag()).map(str::to_owned))
            .set_checksum_crc32(
                copied
                    .and_then(|part| part.checksum_crc32())
                    .map(str::to_owned),
            )
            .build())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(name: &str, bytes: u64) -> Piece<'_> {
        Piece {
            location: "s3://bucket/from",
            name,
            bytes,
            of_bytes: bytes,
            of_crc32: 0,
        }
    }

    #[test]
    fn parts_are_what_s3_takes_and_together_all_there_is() {
        let sizes = [5 << 20, 128 << 20, (128 << 20) + 1, 7 << 30, 3];
        let pieces: Vec<_> = sizes.iter().map(|&bytes| piece("x", bytes)).collect();
        let parts = parts_of(&pieces).unwrap();
        for (number, piece) in pieces.iter().enumerate() {
            let mut end = 0;
            for part in parts.iter().filter(|part| part.piece == number) {
                assert_eq!(part.offset, end);
                assert!(part.bytes <= COPIED_BYTES);
                assert!(part.bytes >= LEAST_BYTES || number + 1 == pieces.len());
                end += part.bytes;
            }
            assert_eq!(end, piece.bytes);
        }
    }

    #[test]
    fn a_small_piece_that_others_follow_cannot_be_a_part() {
        let why = parts_of(&[piece("data/a.tar", 100), piece("b", 9 << 20)]).unwrap_err();
        assert!(why.starts_with("data/a.tar has 100 bytes"), "{why}");
    }

    #[test]
    fn a_key_is_written_as_a_header_takes_it() {
        assert_eq!(encoded("b", "a b/ä+.tar"), "b/a%20b/%C3%A4%2B.tar");
    }
}
