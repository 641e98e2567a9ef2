//! The way to a server: its connections, used again and again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;

use super::dial::{Dialer, Party, Via};
use super::stream::Stream;
use crate::store::s3::trouble::RequestError;

/// S3's side closes connections that are idle for longer: using one then is an error.
const IDLE: Duration = Duration::from_secs(8);

/// The way to a server.
pub(super) struct Route {
    dialer: Arc<Dialer>,
    server: Party,
    via: Option<Via>,
    /// Connections that nobody uses now, the last used at the end: those before it may be let go of.
    idle: Mutex<VecDeque<(Instant, Stream)>>,
}

impl Route {
    pub(super) fn new(dialer: &Arc<Dialer>, https: bool, host: &str, port: u16) -> Self {
        let server = Party::new(https, host, port);
        Self {
            via: dialer.via(&server),
            dialer: Arc::clone(dialer),
            server,
            idle: Mutex::default(),
        }
    }

    /// Whether it is the way to this server.
    pub(super) fn leads_to(&self, https: bool, host: &str, port: u16) -> bool {
        self.server.is(https, host, port)
    }

    /// Requests are read and passed on by a proxy.
    pub(super) fn is_forwarded(&self) -> bool {
        self.via.is_some() && !self.server.https
    }

    /// What that proxy wants to see of each.
    pub(super) fn authorization(&self) -> Option<&HeaderValue> {
        let via = self.via.as_ref().filter(|_| self.is_forwarded());
        via?.authorization.as_ref()
    }

    /// A connection, and whether it was used before; never if it is to be `fresh`.
    pub(super) async fn stream(&self, fresh: bool) -> Result<(Stream, bool), RequestError> {
        if !fresh {
            while let Some(stream) = self.last_used() {
                if stream.is_open() {
                    return Ok((stream, true));
                }
            }
        }
        // Boxed: rare, and what it needs would lie in the memory of every request.
        let stream = Box::pin(self.dialer.dial(&self.server, self.via.as_ref())).await?;
        Ok((stream, false))
    }

    /// Keeps a connection for the next request.
    pub(super) fn keep(&self, stream: Stream) {
        self.idle().push_back((Instant::now(), stream));
    }

    fn last_used(&self) -> Option<Stream> {
        Some(self.idle().pop_back()?.1)
    }

    /// The connections that can be used.
    fn idle(&self) -> MutexGuard<'_, VecDeque<(Instant, Stream)>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while idle
            .front()
            .is_some_and(|(since, _)| since.elapsed() > IDLE)
        {
            idle.pop_front();
        }
        idle
    }
}
