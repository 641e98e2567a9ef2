//! Members that lie close together, read in one: where a read waits for a network, one of megabytes costs no more than one of kilobytes.

use std::sync::{Arc, Mutex, PoisonError};

use super::read::Reading;
use crate::base::buffer::Buffer;
use crate::base::error::{Kind, Result};
use crate::base::reactor::Pending;
use crate::model::sample::Field;
use crate::store::Source;

/// Bytes between two members that are read for nothing: headers, their long forms, and padding.
pub(super) const GAP_BYTES: u64 = 4096;

/// What one read gives for several members.
struct Run {
    inner: Arc<dyn Source>,
    /// Where in the file it begins.
    begin: u64,
    content: Mutex<Content>,
}

struct Content {
    read: Option<Pending<Buffer>>,
    /// What it gave; none where that was an error.
    buffer: Option<Buffer>,
    /// Members that have not taken theirs.
    left: usize,
}

impl Run {
    /// Waits for the read, and copies the bytes of a member from what it gave; `None` if that was an error which is of one member perhaps.
    fn take(&self, offset: u64, length: u64) -> Result<Option<Buffer>> {
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(read) = content.read.take() {
            match read.wait() {
                Ok(buffer) => content.buffer = Some(buffer),
                Err(error) if error.kind() == Kind::Source => {}
                // An outage would be waited for by each of them.
                Err(error) => return Err(error),
            }
        }
        let copied = content.buffer.as_deref().and_then(|bytes| {
            let begin = usize::try_from(offset.checked_sub(self.begin)?).ok()?;
            let end = begin.checked_add(usize::try_from(length).ok()?)?;
            let bytes = bytes.get(begin..end)?;
            let mut buffer = self.inner.spare(bytes.len());
            buffer.room(bytes.len()).copy_from_slice(bytes);
            buffer.sum();
            Some(buffer)
        });
        content.left -= 1;
        if content.left == 0
            && let Some(buffer) = content.buffer.take()
        {
            self.inner.recycle(buffer);
        }
        Ok(copied)
    }
}

/// Starts these reads, those of members that lie close together in one.
pub(super) fn start(inner: &Arc<dyn Source>, readings: Vec<Reading>) -> Vec<Pending<Buffer>> {
    let most = inner.together_bytes();
    let mut order: Vec<usize> = (0..readings.len()).collect();
    order.sort_by(|&a, &b| readings[a].place().cmp(&readings[b].place()));
    let mut runs: Vec<(Vec<usize>, u64, u64)> = Vec::new();
    for at in order {
        let (path, begin, end) = readings[at].place();
        match runs.last_mut() {
            Some((members, first, last))
                if readings[members[0]].place().0 == path
                    && begin >= *last
                    && begin - *last <= GAP_BYTES
                    && end - *first <= most =>
            {
                members.push(at);
                *last = end;
            }
            _ => runs.push((vec![at], begin, end)),
        }
    }
    let mut readings: Vec<_> = readings.into_iter().map(Some).collect();
    let mut started: Vec<Option<Pending<Buffer>>> = readings.iter().map(|_| None).collect();
    for (members, begin, end) in runs {
        let taken = members
            .iter()
            .filter_map(|&at| Some((at, readings[at].take()?)));
        let taken: Vec<(usize, Reading)> = taken.collect();
        if let [_, _, ..] = &taken[..] {
            let archive: &Field = taken[0].1.archive();
            let run = Arc::new(Run {
                inner: Arc::clone(inner),
                begin,
                content: Mutex::new(Content {
                    read: Some(inner.part(archive, begin, end - begin)),
                    buffer: None,
                    left: taken.len(),
                }),
            });
            for (at, reading) in taken {
                let run = Arc::clone(&run);
                started[at] = Some(Pending::later(move || {
                    let (_, begin, end) = reading.place();
                    match run.take(begin, end - begin) {
                        Ok(Some(buffer)) => reading.finish(Ok(buffer)),
                        Ok(None) => reading.start().wait(),
                        Err(error) => reading.finish(Err(error)),
                    }
                }));
            }
        } else {
            for (at, reading) in taken {
                started[at] = Some(reading.start());
            }
        }
    }
    started.into_iter().flatten().collect()
}
