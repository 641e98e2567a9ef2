//! Samples whose reads are started at once, because one read gives the contents of several.

use crate::model::sample::{Field, Sample};
use crate::store::Source;

/// Samples that are in the window, and whose reads are not started.
pub(super) struct Gathered {
    pub(super) samples: Vec<Waiting>,
    /// Memory of the one read that gives all of them.
    bytes: u64,
    most_bytes: u64,
}

/// One of them.
pub(super) struct Waiting {
    pub(super) shard: usize,
    pub(super) sample: Sample,
    /// Memory that it is counted with.
    pub(super) bytes: u64,
    /// The part of it that is for a read of several.
    pub(super) share: u64,
}

/// The fields that files are read for.
fn files(sample: &Sample) -> impl DoubleEndedIterator<Item = &Field> {
    sample.fields.iter().filter(|field| field.content.is_none())
}

/// Memory that a sample's part of a read of several takes; 0 if it is never read with others.
pub(super) fn share(source: &dyn Source, sample: &Sample) -> u64 {
    files(sample).map(|field| source.share_bytes(field)).sum()
}

impl Gathered {
    /// None yet; what is read at once takes no more than so many bytes.
    pub(super) fn new(most_bytes: u64) -> Self {
        Self {
            samples: Vec::new(),
            bytes: 0,
            most_bytes,
        }
    }

    pub(super) fn push(&mut self, waiting: Waiting) {
        self.bytes += waiting.share;
        self.samples.push(waiting);
    }

    /// Whether the same read had better give this sample too.
    pub(super) fn joins(&self, source: &dyn Source, next: &Sample) -> bool {
        let Some(last) = self.samples.last() else {
            return false;
        };
        if last.share == 0 || self.bytes + share(source, next) > self.most_bytes {
            return false;
        }
        match (files(&last.sample).next_back(), files(next).next()) {
            (Some(last), Some(next)) => source.adjoins(last, next),
            _ => false,
        }
    }

    /// All of them, and the memory that one read of all their files takes; 0 if there is none, because they have but one file. It is counted
    /// with the last of them, because it is there as long as that.
    pub(super) fn take(&mut self) -> (Vec<Waiting>, u64) {
        let mut samples = std::mem::take(&mut self.samples);
        let is_one = samples.len() == 1 && files(&samples[0].sample).count() == 1;
        let together = match std::mem::take(&mut self.bytes) {
            _ if is_one => 0,
            bytes => bytes,
        };
        for waiting in &mut samples {
            waiting.bytes -= waiting.share;
        }
        if let Some(last) = samples.last_mut() {
            last.bytes += together;
        }
        (samples, together)
    }
}
