//! Reading an object as it comes: one request for all of it, whose content is handed over while the rest is on its way.
//!
//! This is how readers of shards read that are no part of this program. Whoever wants the bytes soonest asks for several ranges at once instead.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::base::error::{Error, Result};
use crate::store::s3::connection::{Call, Connection};
use crate::store::s3::get::Wanted;
use crate::store::s3::read::{ACTION, Object};
use crate::store::s3::trouble::{Cause, RequestError};
use crate::store::s3::watch;

/// Bytes handed over at once at most.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces that wait for their reader.
const WAITING: usize = 2;

/// An object on its way.
pub(super) struct FlowReader {
    pieces: mpsc::Receiver<Result<Bytes>>,
    piece: Bytes,
}

impl FlowReader {
    /// Asks for an object of `size` bytes; `explain` says what a request that failed is to its reader.
    pub(super) fn new(
        connection: &Arc<Connection>,
        object: Object,
        size: u64,
        explain: fn(&Connection, &Object, &RequestError) -> Error,
    ) -> Self {
        let (sender, pieces) = mpsc::channel(WAITING);
        let (way, object) = (Arc::clone(connection), Arc::new(object));
        connection.spawn(async move {
            let call = way.call(ACTION, object.location.object(&object.key));
            let sent = tokio::select! {
                sent = send(&way, &call, &object, size, &sender) => sent,
                () = sender.closed() => Ok(()),
            };
            if let Err(trouble) = sent {
                // Whoever went away does not want to know.
                let _ = sender.send(Err(explain(&way, &object, &trouble))).await;
            }
        });
        Self {
            pieces,
            piece: Bytes::new(),
        }
    }
}

/// Sends the content; a request that broke off is made again for the rest.
async fn send(
    connection: &Connection,
    call: &Call,
    object: &Object,
    size: u64,
    sender: &mpsc::Sender<Result<Bytes>>,
) -> Result<(), RequestError> {
    let at = AtomicU64::new(0);
    let once = || async {
        let first = at.load(Ordering::Relaxed);
        if first >= size {
            return Ok(());
        }
        let wanted = Wanted {
            bucket: &object.location.bucket,
            key: &object.key,
            tag: object.tag.as_deref(),
            range: Some((first, size - 1)),
        };
        let mut reply = connection.getter.get(&wanted).await?;
        if reply.length() != Some(size - first) {
            let what = format!("another length than {} bytes announced", size - first);
            return Err(RequestError::new(Cause::Other, what));
        }
        while at.load(Ordering::Relaxed) < size {
            let left = size - at.load(Ordering::Relaxed);
            let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(left).unwrap_or(PIECE_BYTES))];
            let read = reply.some(&mut piece).await?;
            piece.truncate(read);
            at.fetch_add(read as u64, Ordering::Relaxed);
            if sender.send(Ok(piece.into())).await.is_err() {
                return Ok(());
            }
            // It was the reader who was waited for.
            watch::moved();
        }
        reply.end();
        Ok(())
    };
    connection.attempt(call, once).await
}

impl Read for FlowReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = piece.map_err(io::Error::other)?,
                None => return Ok(0),
            }
        }
        let n = out.len().min(self.piece.len());
        out[..n].copy_from_slice(&self.piece.split_to(n));
        Ok(n)
    }
}
