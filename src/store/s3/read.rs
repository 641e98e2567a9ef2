//! Reading objects: whole small ones, hundreds at once, and ranges of large ones.
//!
//! An object is asked for under its planned tag, its length is checked, and its body is compared with the checksum that the
//! server keeps, where it keeps one. A body that ends early or stalls is asked for again like any failed request. A read that
//! stands still for much longer than nearly all before it took is asked for a second time, and whichever comes first is taken.

use std::time::Instant;

use crate::base::buffer::{Buffer, Buffers};
use crate::store::s3::connection::Connection;
use crate::store::s3::get::{Reply, Wanted};
use crate::store::s3::location::Location;
use crate::store::s3::trouble::{Cause, RequestError};
use crate::store::s3::watch;

/// Largest object that is read in one request.
const MOST_BYTES: usize = 1 << 30;
/// Longest read that is asked for twice.
const HEDGED_BYTES: u64 = 1 << 20;
/// The status for a range that the object does not have.
pub(super) const PAST_END: u16 = 416;
/// The status for an object that is in another state than was asked for.
const CONDITION: u16 = 412;
/// The permission that reading needs.
pub(super) const ACTION: &str = "s3:GetObject";

/// What to read, and in which state.
#[derive(Clone)]
pub(super) struct Object {
    pub(super) location: Location,
    pub(super) key: String,
    /// The planned tag; none for what is not planned.
    pub(super) tag: Option<String>,
}

/// What of an object to read.
#[derive(Clone, Copy)]
pub(super) enum Span {
    /// All of it, with the server's checksum; so many bytes, if that is known.
    Whole(Option<u64>),
    /// Bytes from the first, so many of them and at least one.
    Part(u64, u64),
}

impl Span {
    fn length(self) -> Option<u64> {
        match self {
            Span::Whole(length) => length,
            Span::Part(_, length) => Some(length),
        }
    }
}

/// Reads a span into a buffer from `buffers`, trying again and hedging as needed.
pub(super) async fn read(
    connection: &Connection,
    object: &Object,
    span: Span,
    buffers: &Buffers,
) -> Result<Buffer, RequestError> {
    let call = connection
        .call(ACTION, object.location.object(&object.key))
        .down(span.length().unwrap_or(0));
    // Only times of reads that are about latency can be compared with each other.
    let small = span.length().is_some_and(|length| length <= HEDGED_BYTES);
    let once = || async {
        let begun = Instant::now();
        let result = once(connection, object, span, buffers).await;
        if result.is_ok() && small {
            connection.latencies.add(begun.elapsed());
        }
        result
    };
    let hedged = || async {
        let Some(patience) = connection.latencies.patience().filter(|_| small) else {
            return once().await;
        };
        let first = once();
        tokio::pin!(first);
        // One that gets on is slow because the link is.
        while watch::idle() < patience {
            tokio::select! {
                result = &mut first => return result,
                () = tokio::time::sleep(patience.saturating_sub(watch::idle())) => {}
            }
        }
        // Where others wait for the link a second request would only take from them.
        let Some(_room) = connection.down.try_share(span.length().unwrap_or(0)) else {
            return first.await;
        };
        if !connection.latencies.may_hedge() {
            return first.await;
        }
        connection.counters.hedge();
        let second = once();
        tokio::pin!(second);
        // Whichever succeeds first; an error only when both failed.
        tokio::select! {
            result = &mut first => match result {
                Ok(buffer) => Ok(buffer),
                Err(_) => second.await,
            },
            result = &mut second => match result {
                Ok(buffer) => Ok(buffer),
                Err(_) => first.await,
            },
        }
    };
    connection.attempt(&call, hedged).await
}

/// Size of the object, by the header of a range: `bytes 0-9/100`.
fn total(range: Option<&str>) -> Option<u64> {
    range?.rsplit('/').next()?.parse().ok()
}

/// One attempt.
async fn once(
    connection: &Connection,
    object: &Object,
    span: Span,
    buffers: &Buffers,
) -> Result<Buffer, RequestError> {
    let range = match span {
        Span::Whole(_) => None,
        Span::Part(start, length) => Some((start, start.saturating_add(length - 1))),
    };
    let wanted = Wanted {
        bucket: &object.location.bucket,
        key: &object.key,
        tag: object.tag.as_deref(),
        range,
    };
    let reply = connection.getter.get(&wanted).await?;
    check_state(&reply, object)?;
    let length = announced(&reply, span)?;
    let mut buffer = buffers.take(length);
    buffer.crc32 = reply.fill(buffer.room(length)).await?;
    Ok(buffer)
}

/// Refuses an object in another state than was asked for: a server that does not know the condition answers with what is there now.
fn check_state(reply: &Reply, object: &Object) -> Result<(), RequestError> {
    if let (Some(planned), Some(actual)) = (&object.tag, reply.tag())
        && actual.trim_start_matches("W/").trim_matches('"') != planned
    {
        let mut trouble = RequestError::new(Cause::Other, "another version");
        trouble.status = CONDITION;
        return Err(trouble);
    }
    Ok(())
}

/// The length of the body, which is what was asked for and can be held.
fn announced(reply: &Reply, span: Span) -> Result<usize, RequestError> {
    let (length, expected) = (reply.length(), span.length());
    let Some(length) = length.filter(|length| expected.is_none_or(|e| e == *length)) else {
        let said = |bytes: Option<u64>| bytes.map_or("none".to_owned(), |bytes| bytes.to_string());
        let [length, expected] = [length, expected].map(said);
        let what = format!("{length} bytes announced, {expected} expected");
        let mut trouble = RequestError::new(Cause::Corrupt, what);
        if let Span::Part(start, length) = span
            && total(reply.range()).is_some_and(|total| start.saturating_add(length) > total)
        {
            trouble = RequestError::new(Cause::Other, "the object ends before");
            trouble.status = PAST_END;
        }
        return Err(trouble);
    };
    usize::try_from(length)
        .ok()
        .filter(|&length| length <= MOST_BYTES)
        .ok_or_else(|| RequestError::new(Cause::Other, "too large to hold"))
}
