//! The bytes of an archive, for a walk that goes from header to header.
//!
//! On a disk each hop is a read of one page. Over a network it depends on how far the hops are: what lies between headers that are near to each
//! other costs less than a request for each, so it streams by in parallel ranges; from far ones only their surroundings are fetched.

use std::collections::VecDeque;

use crate::base::buffer::Buffer;
use crate::base::error::Result;
use crate::base::reactor::Pending;
use crate::base::signal::Stop as RunStop;
use crate::model::counters::Counters;
use crate::model::sample::Field;
use crate::store::{Positioned, Source};

/// Bytes read at most at once from a disk: a header, and the small members after it.
const PAGE_BYTES: usize = 4096;
/// Bytes of a range that streams by.
const CHUNK_BYTES: u64 = 2 << 20;
/// Ranges started before the first is waited for, at most.
const CHUNKS_AHEAD: u64 = 6;
/// The part of the memory that the ranges of all walks take together at most.
const MEMORY_SHARE: u64 = 8;
/// Bytes fetched where headers are far from each other.
const FAR_BYTES: u64 = 16 << 10;
/// Hops up to which all between them streams by: a request takes as long as a connection takes for so many bytes.
const NEAR_BYTES: u64 = 1 << 20;

/// Bytes that are read at any place.
pub(super) trait At {
    /// Fills `room` with the bytes from `offset` on, all of which are there.
    fn read(&mut self, offset: u64, room: &mut [u8]) -> Result<()>;
}

/// Bytes that are held.
impl At for &[u8] {
    fn read(&mut self, offset: u64, room: &mut [u8]) -> Result<()> {
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = at.saturating_add(room.len());
        match self.get(at..end) {
            Some(bytes) => room.copy_from_slice(bytes),
            None => return Err(crate::base::error::Error::failed("a read past the end")),
        }
        Ok(())
    }
}

/// A file of the inner source, read at any place.
pub(super) struct Window<'a> {
    source: &'a dyn Source,
    field: &'a Field,
    counters: &'a Counters,
    stop: &'a RunStop,
    /// Where the bytes end that may be read.
    end: u64,
    by: By,
}

/// How it is read.
enum By {
    /// A page at a time: the file, the page, and where that begins.
    Pages(Box<dyn Positioned>, Vec<u8>, u64),
    Ranges(Ranges),
}

/// Ranges that are started, without gaps.
#[derive(Default)]
struct Ranges {
    started: VecDeque<Range>,
    /// Ranges to start before the first is waited for.
    ahead: usize,
    /// Where the byte read last ended, and how far hops from there were lately.
    last: u64,
    hop: Option<u64>,
}

struct Range {
    begin: u64,
    bytes: u64,
    content: Content,
}

enum Content {
    Started(Pending<Buffer>),
    Read(Buffer),
    /// While it is waited for.
    Taken,
}

impl<'a> Window<'a> {
    /// The file of this field, of which bytes before `end` are read, beside other walks in the memory of the run.
    pub(super) fn open(
        source: &'a dyn Source,
        field: &'a Field,
        end: u64,
        (memory, walks): (u64, usize),
        counters: &'a Counters,
        stop: &'a RunStop,
    ) -> Result<Self> {
        let by = match source.open(field)? {
            Some(file) => By::Pages(file, Vec::new(), 0),
            None => By::Ranges(Ranges {
                ahead: ahead(memory, walks),
                ..Ranges::default()
            }),
        };
        Ok(Self {
            source,
            field,
            counters,
            stop,
            end,
            by,
        })
    }

    /// Refuses a file that was written to while it was walked through.
    pub(super) fn check(&self) -> Result<()> {
        match &self.by {
            By::Pages(file, ..) => file.check(),
            // Each range was asked for under the listed version.
            By::Ranges(_) => Ok(()),
        }
    }
}

impl At for Window<'_> {
    fn read(&mut self, offset: u64, room: &mut [u8]) -> Result<()> {
        let (file, page, begin) = match &mut self.by {
            By::Pages(file, page, begin) => (file, page, begin),
            By::Ranges(ranges) => {
                let start = |offset, bytes| {
                    self.stop.check()?;
                    self.counters.read(bytes);
                    Ok(self.source.part(self.field, offset, bytes))
                };
                return ranges.read(offset, room, self.end, &start);
            }
        };
        let held = *begin..*begin + page.len() as u64;
        if !held.contains(&offset) || held.end - offset < room.len() as u64 {
            self.stop.check()?;
            let left = self.end.saturating_sub(offset);
            // To the end of the page that it lies in: the next one may be on another part of the disk.
            let on_page = PAGE_BYTES - (offset % PAGE_BYTES as u64) as usize;
            let length = (on_page as u64).min(left) as usize;
            page.clear();
            page.resize(length.max(room.len()), 0);
            *begin = offset;
            if let Err(error) = file.read_at(offset, page) {
                page.clear();
                return Err(error);
            }
            self.counters.read(page.len() as u64);
        }
        let at = (offset - *begin) as usize;
        room.copy_from_slice(&page[at..at + room.len()]);
        Ok(())
    }
}

impl Ranges {
    fn read(
        &mut self,
        offset: u64,
        room: &mut [u8],
        end: u64,
        start: &dyn Fn(u64, u64) -> Result<Pending<Buffer>>,
    ) -> Result<()> {
        let hop = offset.abs_diff(self.last);
        let first = self.started.is_empty() && self.hop.is_none();
        if !first {
            // Of the last few hops; one long file among many small ones does not end the stream.
            self.hop = Some(
                self.hop
                    .map_or(hop, |before| (before * 3 + hop.min(1 << 40)) / 4),
            );
        }
        let streams = self.hop.is_some_and(|hop| hop <= NEAR_BYTES);
        let mut done = 0;
        while done < room.len() {
            let at = offset + done as u64;
            while self
                .started
                .front()
                .is_some_and(|range| range.begin + range.bytes <= at)
            {
                self.started.pop_front();
            }
            if self.started.front().is_none_or(|range| range.begin > at) {
                self.started.clear();
                let wanted = (room.len() - done) as u64;
                let bytes = if streams { CHUNK_BYTES } else { FAR_BYTES };
                self.start(
                    at,
                    bytes.max(wanted).min(end.saturating_sub(at)).max(1),
                    start,
                )?;
            }
            if streams {
                self.top_up(end, start)?;
            }
            let Some(range) = self.started.front_mut() else {
                continue;
            };
            let from = (at - range.begin) as usize;
            let held = range.wait()?;
            let held = &held[from.min(held.len())..];
            let some = held.len().min(room.len() - done);
            room[done..done + some].copy_from_slice(&held[..some]);
            done += some;
        }
        self.last = offset + room.len() as u64;
        Ok(())
    }

    fn start(
        &mut self,
        begin: u64,
        bytes: u64,
        start: &dyn Fn(u64, u64) -> Result<Pending<Buffer>>,
    ) -> Result<()> {
        let content = Content::Started(start(begin, bytes)?);
        self.started.push_back(Range {
            begin,
            bytes,
            content,
        });
        Ok(())
    }

    /// Starts the ranges that come next.
    fn top_up(
        &mut self,
        end: u64,
        start: &dyn Fn(u64, u64) -> Result<Pending<Buffer>>,
    ) -> Result<()> {
        while let Some(last) = self.started.back() {
            let next = last.begin + last.bytes;
            if self.started.len() > self.ahead || next >= end {
                break;
            }
            self.start(next, CHUNK_BYTES.min(end - next), start)?;
        }
        Ok(())
    }
}

/// Ranges that each of so many walks starts ahead, where the whole run has so much memory.
fn ahead(memory: u64, walks: usize) -> usize {
    let each = memory / MEMORY_SHARE / walks.max(1) as u64 / CHUNK_BYTES;
    each.clamp(1, CHUNKS_AHEAD) as usize
}

impl Range {
    fn wait(&mut self) -> Result<&Buffer> {
        if let Content::Started(_) = self.content
            && let Content::Started(pending) = std::mem::replace(&mut self.content, Content::Taken)
        {
            self.content = Content::Read(pending.wait()?);
        }
        match &self.content {
            Content::Read(buffer) => Ok(buffer),
            _ => Err(crate::base::error::Error::failed("a range was given up")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// What is asked for where headers of 512 bytes are read at these places.
    fn asked(places: impl Iterator<Item = u64>, end: u64) -> Vec<(u64, u64)> {
        let asked = RefCell::new(Vec::new());
        let start = |offset: u64, bytes: u64| {
            asked.borrow_mut().push((offset, bytes));
            Ok(Pending::later(move || {
                let mut buffer = Buffer::default();
                for (i, byte) in buffer.room(bytes as usize).iter_mut().enumerate() {
                    *byte = (offset + i as u64) as u8;
                }
                Ok(buffer)
            }))
        };
        let mut ranges = Ranges {
            ahead: ahead(4 << 30, 8),
            ..Ranges::default()
        };
        for place in places {
            let mut room = [0; 512];
            ranges.read(place, &mut room, end, &start).unwrap();
            assert!(
                room.iter()
                    .enumerate()
                    .all(|(i, &b)| b == (place + i as u64) as u8)
            );
        }
        asked.into_inner()
    }

    #[test]
    fn near_headers_stream_by_once_and_far_ones_are_fetched_alone() {
        let end = 100 << 20;
        let near = asked((0..900).map(|i| i * 110_003), end);
        let bytes: u64 = near.iter().map(|(_, bytes)| bytes).sum();
        assert!(bytes <= end + FAR_BYTES, "{bytes}");
        let mut sorted = near.clone();
        sorted.sort_unstable();
        assert_eq!(near, sorted, "nothing is read twice");
        let far = asked((0..1000).map(|i| i * 148_000_011), 148 << 30);
        assert!(far.len() == 1000 && far.iter().all(|(_, bytes)| *bytes == FAR_BYTES));
    }
}
