//! One request on a connection, and its answer.
//!
//! HTTP is hyper's to speak. It is driven by whoever waits for the answer: with a task of its own for each connection, every answer would be
//! handed from thread to thread. Where the length of a body is known, the connection is taken back after the head, so that the body need not
//! pass through anybody else's memory.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::header::{CONNECTION, HeaderName};
use http::response::Parts;
use http::{Request, Version};
use http_body_util::Empty;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{Connection, handshake};
use hyper_util::rt::TokioIo;

use super::stream::Stream;

/// A request that was sent, and the head of its answer.
pub(super) struct Exchange {
    pub(super) head: Parts,
    body: Incoming,
    connection: Connection<TokioIo<Stream>, Empty<Bytes>>,
}

impl Exchange {
    /// Sends a request and waits for the head of its answer.
    pub(super) async fn begin(
        stream: Stream,
        request: Request<Empty<Bytes>>,
    ) -> Result<Self, hyper::Error> {
        let (mut sender, mut connection) = handshake(TokioIo::new(stream)).await?;
        let mut answer = pin!(sender.send_request(request));
        let answer = poll_fn(|context| {
            // Its end, too, is told by the answer.
            let ended = connection.poll_without_shutdown(context);
            match (answer.as_mut().poll(context), ended) {
                (Poll::Pending, Poll::Ready(Err(error))) => Poll::Ready(Err(error)),
                (answer, _) => answer,
            }
        });
        let (head, body) = answer.await?.into_parts();
        Ok(Self {
            head,
            body,
            connection,
        })
    }

    /// The value of a header, if it is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }

    /// Takes the connection back: the answer's head, what came of the body along with it, and where the rest will come from.
    pub(super) fn raw(mut self) -> (Parts, Vec<Bytes>, Stream) {
        let mut early = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut self.body).poll_frame(&mut context) {
            early.extend(frame.into_data().ok());
        }
        drop(self.body);
        let parts = self.connection.into_parts();
        if !parts.read_buf.is_empty() {
            early.push(parts.read_buf);
        }
        (self.head, early, parts.io.into_inner())
    }

    /// Reads a body of any form, or so many bytes of it; the connection too, if it can be used again.
    pub(super) async fn words(self, most: usize) -> (Parts, Vec<u8>, Option<Stream>) {
        let Self {
            head,
            mut body,
            mut connection,
        } = self;
        let mut words = Vec::new();
        let mut ended = None;
        let whole = poll_fn(|context| {
            loop {
                let mut frame = Pin::new(&mut body).poll_frame(context);
                if frame.is_pending() && ended.is_none() {
                    // With nothing more to ask it ends when it has read the body.
                    if let Poll::Ready(end) = connection.poll_without_shutdown(context) {
                        ended = Some(end.is_ok());
                    }
                    frame = Pin::new(&mut body).poll_frame(context);
                }
                match ready!(frame) {
                    Some(Ok(frame)) => {
                        words.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
                        if words.len() > most {
                            return Poll::Ready(false);
                        }
                    }
                    Some(Err(_)) => return Poll::Ready(false),
                    None => return Poll::Ready(true),
                }
            }
        });
        let whole = whole.await;
        let parts = connection.into_parts();
        let sound = ended.unwrap_or(true) && parts.read_buf.is_empty();
        let again = whole && sound && stays(&head);
        (head, words, again.then(|| parts.io.into_inner()))
    }
}

/// Whether the server keeps the connection after this answer.
pub(super) fn stays(head: &Parts) -> bool {
    let closes = |name: HeaderName| {
        let values = head.headers.get_all(name).into_iter();
        values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|word| word.trim().eq_ignore_ascii_case("close"))
    };
    head.version == Version::HTTP_11 && !closes(CONNECTION)
}
