//! Starts reads early and hands samples over in plan order, holding a bounded number of bytes.
//!
//! Bytes are bounded here, requests in the [`crate::reactor`]. The window runs across shard boundaries: the reads of a packer's
//! next shard begin while it ends its last.

use std::collections::VecDeque;
use std::iter::Peekable;

use crate::budget::STREAM_ABOVE_BYTES;
use crate::buffer::Buffer;
use crate::error::Result;
use crate::reactor::Pending;
use crate::sample::Sample;
use crate::store::Source;

/// The content of one source file, or the word that it is too large to hold.
pub enum Content {
    /// All of it.
    Held(Buffer),
    /// To be streamed.
    Large,
}

/// A sample with the contents of its fields, in the order of its fields.
pub struct Fetched {
    /// Index of its shard in the plan.
    pub shard: usize,
    /// The sample.
    pub sample: Sample,
    /// Content or failure of each field.
    pub contents: Vec<Result<Content>>,
}

struct Started {
    shard: usize,
    sample: Sample,
    /// `None` where the field is too large to hold.
    reads: Vec<Option<Pending<Buffer>>>,
    bytes: u64,
}

/// The samples that one packer will pack, their reads started early.
pub struct Lookahead<'a, I: Iterator<Item = Result<(usize, Sample)>>> {
    source: &'a dyn Source,
    todo: Peekable<I>,
    started: VecDeque<Started>,
    held: u64,
    /// Bytes of the sample handed over last.
    in_hand: u64,
    window_bytes: u64,
}

impl<'a, I: Iterator<Item = Result<(usize, Sample)>>> Lookahead<'a, I> {
    /// Reads what `todo` names, holding at most `window_bytes`, and no field over [`STREAM_ABOVE_BYTES`].
    pub fn new(source: &'a dyn Source, todo: I, window_bytes: u64) -> Self {
        Self {
            source,
            todo: todo.peekable(),
            started: VecDeque::new(),
            held: 0,
            in_hand: 0,
            window_bytes,
        }
    }

    /// The shard of the next sample.
    pub fn next_shard(&mut self) -> Option<Result<usize>> {
        self.top_up();
        match self.started.front() {
            Some(started) => Some(Ok(started.shard)),
            None => self.todo.next().map(|next| next.map(|(shard, _)| shard)),
        }
    }

    /// Starts reads in plan order while they fit; one sample is always let in.
    fn top_up(&mut self) {
        let held_bytes = |sample: &Sample| -> u64 {
            let sizes = sample.fields.iter().map(|field| field.size);
            sizes.filter(|&size| size <= STREAM_ABOVE_BYTES).sum()
        };
        while let Some(Ok((_, sample))) = self.todo.peek() {
            let bytes = held_bytes(sample);
            if !self.started.is_empty() && self.held + self.in_hand + bytes > self.window_bytes {
                return;
            }
            let Some(Ok((shard, sample))) = self.todo.next() else {
                return;
            };
            self.held += bytes;
            let start = |field: &crate::sample::Field| {
                (field.size <= STREAM_ABOVE_BYTES).then(|| self.source.start(field))
            };
            let reads = sample.fields.iter().map(start).collect();
            self.started.push_back(Started {
                shard,
                sample,
                reads,
                bytes,
            });
        }
    }

    /// The next sample, when its reads are done; an error only when the list of samples itself cannot be read.
    pub fn fetch(&mut self) -> Option<Result<Fetched>> {
        self.in_hand = 0;
        self.top_up();
        let Some(started) = self.started.pop_front() else {
            return match self.todo.next()? {
                Err(error) => Some(Err(error)),
                // Cannot be: topping up with nothing started lets one sample in.
                Ok(_) => None,
            };
        };
        self.held -= started.bytes;
        self.in_hand = started.bytes;
        let contents = started
            .reads
            .into_iter()
            .map(|read| match read {
                None => Ok(Content::Large),
                Some(pending) => pending.wait().map(Content::Held),
            })
            .collect();
        Some(Ok(Fetched {
            shard: started.shard,
            sample: started.sample,
            contents,
        }))
    }

    /// Takes the contents of a packed sample back for later reads.
    pub fn recycle(&mut self, contents: Vec<Result<Content>>) {
        for content in contents {
            if let Ok(Content::Held(buffer)) = content {
                self.source.recycle(buffer);
            }
        }
    }
}
