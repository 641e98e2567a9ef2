//! Members that lie close together, read in one: where a read waits for a network, one of megabytes costs no more than one of kilobytes.

use std::sync::{Arc, Mutex, PoisonError};

use super::read::Reading;
use crate::base::buffer::Buffer;
use crate::base::error::{Kind, Result};
use crate::base::reactor::Pending;
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

/// Members of one file that one read gives, by their numbers, and which bytes of the file that read is.
struct Span {
    members: Vec<usize>,
    begin: u64,
    end: u64,
}

/// Which of these reads are done in one: those of members that lie close together.
fn spans(readings: &[Option<Reading>], most: u64) -> Vec<Span> {
    let place = |at: usize| readings[at].as_ref().map(Reading::place);
    let mut order: Vec<usize> = (0..readings.len())
        .filter(|&at| place(at).is_some())
        .collect();
    order.sort_by_key(|&at| place(at));
    let mut spans: Vec<Span> = Vec::new();
    for at in order {
        let Some((path, begin, end)) = place(at) else {
            continue;
        };
        let joins = |span: &&mut Span| {
            place(span.members[0]).is_some_and(|(other, ..)| other == path)
                && begin >= span.end
                && begin - span.end <= GAP_BYTES
                && end - span.begin <= most
        };
        match spans.last_mut().filter(joins) {
            Some(span) => {
                span.members.push(at);
                span.end = end;
            }
            None => spans.push(Span {
                members: vec![at],
                begin,
                end,
            }),
        }
    }
    spans
}

/// Starts these reads, in as few as possible; where there is none to start, none is given.
pub(super) fn start(
    inner: &Arc<dyn Source>,
    mut readings: Vec<Option<Reading>>,
) -> Vec<Option<Pending<Buffer>>> {
    let spans = spans(&readings, inner.together_bytes());
    let mut started: Vec<_> = readings.iter().map(|_| None).collect();
    for Span {
        members,
        begin,
        end,
    } in spans
    {
        let first = members[0];
        if members.len() == 1 {
            started[first] = readings[first].take().map(Reading::start);
            continue;
        }
        let Some(archive) = readings[first].as_ref().map(Reading::archive) else {
            continue;
        };
        let run = Arc::new(Run {
            inner: Arc::clone(inner),
            begin,
            content: Mutex::new(Content {
                read: Some(inner.part(archive, begin, end - begin)),
                buffer: None,
                left: members.len(),
            }),
        });
        for at in members {
            let Some(reading) = readings[at].take() else {
                continue;
            };
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
    }
    started
}
