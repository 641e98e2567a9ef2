//! Reading objects: whole small ones, hundreds at once, and large ones as parallel ranges.
//!
//! An object is asked for under its planned tag, its length is checked, and its body is compared with the checksum that the
//! server keeps, where it keeps one. A body that ends early or stalls is asked for again like any failed request. A read that
//! stands still for much longer than nearly all before it took is asked for a second time, and whichever comes first is taken.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aws_sdk_s3::types::ChecksumMode;

use super::Location;
use super::connection::Connection;
use super::trouble::{Sort, Trouble};
use super::watch;
use crate::base::buffer::{Buffer, Buffers};
use crate::base::error::Result;
use crate::base::reactor::Pending;

/// How a large object is read: in ranges of so many bytes, so many of them ahead of the reader.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    range_bytes: u64,
    ranges: usize,
}

impl Ahead {
    /// For a shard, of which a few are read with nothing else to do.
    pub(super) const SHARD: Self = Self {
        range_bytes: 8 << 20,
        ranges: 8,
    };

    /// Memory that one opened object takes.
    pub(super) const fn bytes(self) -> u64 {
        self.range_bytes * (self.ranges as u64 + 1)
    }
}

/// Largest object that is read in one request.
const MOST_BYTES: usize = 1 << 30;
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
) -> Result<Buffer, Trouble> {
    let call = connection
        .call(ACTION, object.location.object(&object.key))
        .down(span.length().unwrap_or(0));
    // Only times of reads that are about latency can be compared with each other.
    let small = span.length().is_some_and(|length| length <= HEDGED_BYTES);
    let once = || async {
        let begun = Instant::now();
        let result = once(connection, object, span, buffers).await;
        if result.is_ok() && small {
            connection.times.add(begun.elapsed());
        }
        result
    };
    let hedged = || async {
        let Some(patience) = connection.times.patience().filter(|_| small) else {
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
        if !connection.times.may_hedge() {
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

async fn once(
    connection: &Connection,
    object: &Object,
    span: Span,
    buffers: &Buffers,
) -> Result<Buffer, Trouble> {
    let (range, whole) = match span {
        Span::Whole(_) => (None, true),
        Span::Part(start, length) => {
            let last = start.saturating_add(length - 1);
            (Some(format!("bytes={start}-{last}")), false)
        }
    };
    let request = connection
        .client
        .get_object()
        .bucket(&object.location.bucket)
        .key(&object.key)
        .set_if_match(object.tag.as_ref().map(|tag| format!("\"{tag}\"")))
        .set_checksum_mode(whole.then_some(ChecksumMode::Enabled))
        .set_range(range)
        .set_request_payer(connection.payer());
    let answer = request.send().await.map_err(Trouble::from)?;
    // A server that does not know the condition answers with what is there now.
    if let (Some(planned), Some(actual)) = (&object.tag, answer.e_tag())
        && actual.trim_start_matches("W/").trim_matches('"') != planned
    {
        let mut trouble = Trouble::new(Sort::Other, "another version");
        trouble.status = CONDITION;
        return Err(trouble);
    }
    let length = answer.content_length().unwrap_or(-1);
    let expected = span.length();
    if u64::try_from(length).is_err() || expected.is_some_and(|e| u64::try_from(length) != Ok(e)) {
        let what = format!("{length} bytes announced, {expected:?} expected");
        let mut trouble = Trouble::new(Sort::Corrupt, what);
        if let Span::Part(start, length) = span
            && total(answer.content_range())
                .is_some_and(|total| start.saturating_add(length) > total)
        {
            trouble = Trouble::new(Sort::Other, "the object ends before");
            trouble.status = PAST_END;
        }
        return Err(trouble);
    }
    let room = usize::try_from(length)
        .ok()
        .filter(|&room| room <= MOST_BYTES)
        .ok_or_else(|| Trouble::new(Sort::Other, "too large to hold"))?;
    let mut body = answer.body;
    let mut buffer = buffers.take(room);
    let into = buffer.room(room);
    let mut filled = 0;
    loop {
        let piece = match body.try_next().await {
            Ok(Some(piece)) => piece,
            Ok(None) => break,
            Err(error) => {
                // The client library compares the body with the checksum that the server keeps.
                let text = error.to_string().to_lowercase();
                let sort = match text.contains("checksum") {
                    true => Sort::Corrupt,
                    false => Sort::Connection,
                };
                return Err(Trouble::new(
                    sort,
                    format!("the answer broke off after {filled} bytes"),
                ));
            }
        };
        let Some(place) = into.get_mut(filled..filled + piece.len()) else {
            return Err(Trouble::new(
                Sort::Corrupt,
                format!("more than {room} bytes arrived"),
            ));
        };
        place.copy_from_slice(&piece);
        filled += piece.len();
    }
    if filled < room {
        let what = format!("{filled} bytes arrived, {room} expected");
        return Err(Trouble::new(Sort::Corrupt, what));
    }
    buffer.sum();
    Ok(buffer)
}

/// How long reads took lately, in a histogram of half powers of two; tells which of them are stragglers.
pub(super) struct Times {
    counts: [AtomicU32; 64],
    total: AtomicU32,
    reads: AtomicU64,
    hedges: AtomicU64,
}

/// Reads after which stragglers are known, and after which old times count half.
const KNOWN: std::ops::Range<u32> = 200..4000;
/// Longest read that is asked for twice.
const HEDGED_BYTES: u64 = 1 << 20;
/// A read among the slowest this-many-th is a straggler...
const SLOWEST: u32 = 50;
/// ...and one in so many reads may be asked for twice.
const HEDGED: u64 = 20;
/// Asking again sooner than this would only add load.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(100);

impl Default for Times {
    fn default() -> Self {
        Self {
            counts: std::array::from_fn(|_| AtomicU32::new(0)),
            total: AtomicU32::new(0),
            reads: AtomicU64::new(0),
            hedges: AtomicU64::new(0),
        }
    }
}

impl Times {
    fn bucket(time: Duration) -> usize {
        let micros = time.as_micros().max(1) as f64;
        ((micros.log2() * 2.0) as usize).min(63)
    }

    fn add(&self, time: Duration) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.counts[Self::bucket(time)].fetch_add(1, Ordering::Relaxed);
        if self.total.fetch_add(1, Ordering::Relaxed) + 1 >= KNOWN.end {
            let mut total = 0;
            for count in &self.counts {
                let half = count.load(Ordering::Relaxed) / 2;
                count.store(half, Ordering::Relaxed);
                total += half;
            }
            self.total.store(total, Ordering::Relaxed);
        }
    }

    /// How long to wait for a read before it is a straggler: twice what nearly all take. None while too little is known.
    fn patience(&self) -> Option<Duration> {
        let total = self.total.load(Ordering::Relaxed);
        if total < KNOWN.start {
            return None;
        }
        let mut slower = total / SLOWEST;
        for (bucket, count) in self.counts.iter().enumerate().rev() {
            let count = count.load(Ordering::Relaxed);
            if count > slower {
                let upper = 2f64.powf((bucket + 1) as f64 / 2.0);
                let twice = Duration::from_micros(upper as u64 * 2);
                return Some(twice.max(SHORTEST_PATIENCE));
            }
            slower -= count;
        }
        None
    }

    fn may_hedge(&self) -> bool {
        let allowed = self.reads.load(Ordering::Relaxed) / HEDGED;
        let hedged = self
            .hedges
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |hedges| {
                (hedges < allowed).then_some(hedges + 1)
            });
        hedged.is_ok()
    }
}

/// A large object, read from its beginning with ranges in flight ahead of the reader.
pub(super) struct Ranges {
    connection: Arc<Connection>,
    object: Object,
    size: u64,
    ahead: Ahead,
    next: u64,
    started: VecDeque<Pending<Buffer>>,
    current: Buffer,
    at: usize,
    buffers: Arc<Buffers>,
    explain: fn(&Connection, &Object, &Trouble) -> crate::base::error::Error,
}

impl Ranges {
    pub(super) fn new(
        connection: &Arc<Connection>,
        object: Object,
        size: u64,
        ahead: Ahead,
        explain: fn(&Connection, &Object, &Trouble) -> crate::base::error::Error,
    ) -> Self {
        Self {
            connection: Arc::clone(connection),
            object,
            size,
            ahead,
            next: 0,
            started: VecDeque::new(),
            current: Buffer::default(),
            at: 0,
            buffers: Arc::default(),
            explain,
        }
    }

    fn top_up(&mut self) {
        while self.started.len() < self.ahead.ranges && self.next < self.size {
            let length = (self.size - self.next).min(self.ahead.range_bytes);
            let span = match length == self.size {
                true => Span::Whole(Some(length)),
                false => Span::Part(self.next, length),
            };
            self.next += length;
            let (connection, object) = (Arc::clone(&self.connection), self.object.clone());
            let (buffers, explain) = (Arc::clone(&self.buffers), self.explain);
            let pending = self.connection.start(async move {
                let read = read(&connection, &object, span, &buffers).await;
                read.map_err(|trouble| explain(&connection, &object, &trouble))
            });
            self.started.push_back(pending);
        }
    }
}

impl Read for Ranges {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.current.len() {
            let used = std::mem::take(&mut self.current);
            self.buffers.give_back(used);
            self.at = 0;
            self.top_up();
            let Some(pending) = self.started.pop_front() else {
                return Ok(0);
            };
            self.current = pending.wait().map_err(io::Error::other)?;
        }
        let n = out.len().min(self.current.len() - self.at);
        out[..n].copy_from_slice(&self.current[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straggler_is_told_by_what_nearly_all_reads_take() {
        let times = Times::default();
        for _ in 0..KNOWN.start {
            assert_eq!(times.patience(), None);
            times.add(Duration::from_millis(150));
        }
        let patience = times.patience().unwrap();
        let expected = Duration::from_millis(290)..Duration::from_millis(460);
        assert!(expected.contains(&patience), "{patience:?}");
        // One slow read in a thousand does not change it, one in ten does.
        times.add(Duration::from_secs(5));
        assert_eq!(times.patience().unwrap(), patience);
        for _ in 0..30 {
            times.add(Duration::from_secs(2));
        }
        assert!(times.patience().unwrap() > Duration::from_secs(3));
    }

    #[test]
    fn few_reads_are_asked_for_twice() {
        let times = Times::default();
        for _ in 0..100 {
            times.add(Duration::from_millis(1));
        }
        let hedged = (0..50).filter(|_| times.may_hedge()).count();
        assert_eq!(hedged, 5);
    }

    #[test]
    fn old_times_are_forgotten() {
        let times = Times::default();
        for _ in 0..KNOWN.end {
            times.add(Duration::from_secs(1));
        }
        for _ in 0..KNOWN.end * 8 {
            times.add(Duration::from_millis(10));
        }
        assert_eq!(times.patience(), Some(SHORTEST_PATIENCE));
    }
}
