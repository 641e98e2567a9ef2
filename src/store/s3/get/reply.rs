//! An object on its way: what the head of the answer says of it, and its content.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderName, TRANSFER_ENCODING};
use http::response::Parts;
use tokio::io::AsyncReadExt;

use super::exchange::{Exchange, stays};
use super::route::Route;
use super::stream::Stream;
use super::sums::Sums;
use crate::store::s3::trouble::{Cause, RequestError};
use crate::store::s3::watch;

/// Most that is read before it is checksummed: what a core's own cache holds.
const PIECE_BYTES: usize = 256 << 10;

/// An answer with an object.
pub(in crate::store::s3) struct Reply {
    head: Parts,
    /// What came along with the head.
    early: Vec<Bytes>,
    stream: Stream,
    route: Arc<Route>,
    whole: bool,
}

impl Reply {
    /// `whole` if all of the object was asked for.
    pub(super) fn new(exchange: Exchange, route: &Arc<Route>, whole: bool) -> Self {
        let (head, early, stream) = exchange.raw();
        Self {
            head,
            early,
            stream,
            route: Arc::clone(route),
            whole,
        }
    }

    fn header(&self, name: HeaderName) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }

    /// Bytes of the content, if the server says so.
    pub(in crate::store::s3) fn length(&self) -> Option<u64> {
        if self.head.headers.contains_key(TRANSFER_ENCODING) {
            return None;
        }
        self.header(CONTENT_LENGTH)?.trim().parse().ok()
    }

    /// The object's entity tag as it is written.
    pub(in crate::store::s3) fn tag(&self) -> Option<&str> {
        self.header(ETAG)
    }

    /// Which range of how many bytes this is: `bytes 0-9/100`.
    pub(in crate::store::s3) fn range(&self) -> Option<&str> {
        self.header(CONTENT_RANGE)
    }

    /// Reads some of the content, as much as is there and at least a byte, into `room`. It is compared with nothing.
    ///
    /// # Errors
    ///
    /// An answer that breaks off.
    pub(in crate::store::s3) async fn some(
        &mut self,
        room: &mut [u8],
    ) -> Result<usize, RequestError> {
        self.early.retain(|piece| !piece.is_empty());
        if let Some(piece) = self.early.first_mut() {
            let taken = piece.len().min(room.len());
            room[..taken].copy_from_slice(&piece.split_to(taken));
            return Ok(taken);
        }
        match self.stream.read(room).await {
            Ok(0) | Err(_) => {
                let what = "the answer broke off";
                Err(RequestError::new(Cause::Connection, what))
            }
            Ok(read) => {
                watch::moved();
                Ok(read)
            }
        }
    }

    /// All of the content was read: the connection can be used again.
    pub(in crate::store::s3) fn end(self) {
        if self.early.iter().all(Bytes::is_empty) && stays(&self.head) {
            self.route.keep(self.stream);
        }
    }

    /// Reads the content into `room`, which is as long as it, and says its CRC-32.
    ///
    /// # Errors
    ///
    /// An answer that breaks off; a content that does not come to what the server keeps.
    pub(in crate::store::s3) async fn fill(mut self, room: &mut [u8]) -> Result<u32, RequestError> {
        let mut sums = match self.whole {
            true => Sums::compared(&self.head.headers),
            false => Sums::alone(),
        };
        let mut filled = 0;
        while filled < room.len() {
            let end = room.len().min(filled + PIECE_BYTES);
            let read = self.some(&mut room[filled..end]).await.map_err(|_| {
                let what = format!("the answer broke off after {filled} bytes");
                RequestError::new(Cause::Connection, what)
            })?;
            sums.add(&room[filled..filled + read]);
            filled += read;
        }
        let crc32 = sums.compare()?;
        self.end();
        Ok(crc32)
    }
}
