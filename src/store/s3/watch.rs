//! What is seen of requests on the wire: that bytes move, in either direction, and what time the server says it is.
//!
//! A request is given up for standing still, never for taking long: on a slow link it takes as long as the link makes it. So
//! the bodies of requests and answers are looked at where the client library hands them to its transport, answers that the
//! library reads itself included: listings, and the blanks that a server sends while it puts an upload together.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, SystemTime};

use aws_sdk_s3::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_sdk_s3::error::ConnectorError;
use aws_sdk_s3::primitives::{DateTime, DateTimeFormat, SdkBody};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// A body is handed to the transport in pieces of this many bytes: what was taken is as much as could be sent.
const PIECE_BYTES: usize = 64 << 10;

tokio::task_local! {
    /// The progress of the attempt that is being made.
    static PROGRESS: Arc<Progress>;
}

/// What moved for one attempt of a request, in both directions; times are microseconds since it began.
#[derive(Debug)]
struct Progress {
    begun: Instant,
    /// When something moved last.
    moved: AtomicU64,
    /// When the body of the request began to go.
    sending: AtomicU64,
    /// How long that took; 0 while it goes.
    sent: AtomicU64,
}

impl Progress {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            begun: Instant::now(),
            moved: AtomicU64::new(0),
            sending: AtomicU64::new(u64::MAX),
            sent: AtomicU64::new(0),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn note(&self) -> u64 {
        self.moved.fetch_max(self.now(), Ordering::Relaxed);
        self.moved.load(Ordering::Relaxed)
    }

    /// Bytes of the request were taken by the transport; `last` if there are no more.
    fn sends(&self, last: bool) {
        let now = self.note();
        // A request that goes to another server after all is sent twice.
        let first = self.sending.fetch_min(now, Ordering::Relaxed).min(now);
        if last {
            self.sent.store(now - first, Ordering::Relaxed);
        }
    }

    /// Until when it may stand still. What the transport took may lie in buffers of this machine and of those in between: the
    /// answer is given as much more time as it took to hand the body over, which no buffer makes shorter than by half.
    fn deadline(&self, limit: Duration) -> Instant {
        let moved = self.moved.load(Ordering::Relaxed);
        let sent = self.sent.load(Ordering::Relaxed);
        self.begun + Duration::from_micros(moved.saturating_add(sent)) + limit
    }
}

/// Runs one attempt for as long as bytes move; `None` when none did for `limit`. Requests within share its progress.
pub(super) async fn watched<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    // Looking at the outcome of a request is part of it.
    let progress = PROGRESS
        .try_with(Arc::clone)
        .unwrap_or_else(|_| Progress::new());
    progress.note();
    let work = PROGRESS.scope(Arc::clone(&progress), work);
    tokio::pin!(work);
    loop {
        let deadline = progress.deadline(limit);
        tokio::select! {
            value = &mut work => return Some(value),
            () = tokio::time::sleep_until(deadline.into()) => {
                if progress.deadline(limit) <= Instant::now() {
                    return None;
                }
            }
        }
    }
}

/// How long nothing has moved for the attempt that asks.
pub(super) fn idle() -> Duration {
    let idle = |progress: &Arc<Progress>| {
        progress
            .now()
            .saturating_sub(progress.moved.load(Ordering::Relaxed))
    };
    Duration::from_micros(PROGRESS.try_with(idle).unwrap_or(0))
}

/// Something moved for the attempt that is being made.
pub(super) fn moved() {
    _ = PROGRESS.try_with(|progress| progress.note());
}

/// The clock of a server, by the dates of its answers.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// Seconds that it is ahead of this machine's; 0 before the first answer.
    ahead: AtomicI64,
    /// What this machine's is corrected by: the same, once the server has said that it is wrong.
    correction: AtomicI64,
}

impl Clock {
    /// The server dates its answer.
    pub(super) fn says(&self, date: &str) {
        let Ok(date) = DateTime::from_str(date, DateTimeFormat::HttpDate) else {
            return;
        };
        let here = DateTime::from(SystemTime::now()).secs();
        self.ahead.store(date.secs() - here, Ordering::Relaxed);
    }

    /// The server says that this machine's clock is wrong: from now on its own counts.
    pub(super) fn correct(&self) {
        let ahead = self.ahead.load(Ordering::Relaxed);
        self.correction.store(ahead, Ordering::Relaxed);
    }

    /// The time to sign by.
    pub(super) fn now(&self) -> SystemTime {
        let now = SystemTime::now();
        let correction = self.correction.load(Ordering::Relaxed);
        let by = Duration::from_secs(correction.unsigned_abs());
        let corrected = match correction < 0 {
            true => now.checked_sub(by),
            false => now.checked_add(by),
        };
        corrected.unwrap_or(now)
    }

    /// Time since then, by this clock; zero where that lies in the future.
    pub(super) fn since(&self, then: &DateTime) -> Duration {
        let ahead = self.ahead.load(Ordering::Relaxed);
        let now = DateTime::from(SystemTime::now()).secs() + ahead;
        Duration::from_secs(u64::try_from(now - then.secs()).unwrap_or(0))
    }
}

/// An HTTP client that notes what moves, and the dates of answers.
#[derive(Debug)]
pub(super) struct Watched {
    client: SharedHttpClient,
    clock: Arc<Clock>,
}

impl Watched {
    pub(super) fn over(client: SharedHttpClient, clock: &Arc<Clock>) -> SharedHttpClient {
        let clock = Arc::clone(clock);
        SharedHttpClient::new(Self { client, clock })
    }
}

impl HttpClient for Watched {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(Connector {
            inner: self.client.http_connector(settings, components),
            clock: Arc::clone(&self.clock),
        })
    }
}

#[derive(Debug)]
struct Connector {
    inner: SharedHttpConnector,
    clock: Arc<Clock>,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let clock = Arc::clone(&self.clock);
        // Credentials may be fetched by a task that serves many requests.
        let Ok(progress) = PROGRESS.try_with(Arc::clone) else {
            return self.inner.call(request);
        };
        let sent = Arc::clone(&progress);
        let request = request.map(move |body| seen(body, &sent, Direction::Out));
        let answer = self.inner.call(request);
        HttpConnectorFuture::new(async move {
            let answer: Result<HttpResponse, ConnectorError> = answer.await;
            let answer = answer?;
            progress.note();
            if let Some(date) = answer.headers().get("date") {
                clock.says(date);
            }
            Ok(answer.map(move |body| seen(body, &progress, Direction::In)))
        })
    }
}

fn seen(body: SdkBody, progress: &Arc<Progress>, way: Direction) -> SdkBody {
    // Nothing moves in a body without content, and the transport wants to know that there is none.
    if body.content_length() == Some(0) {
        return body;
    }
    let progress = Arc::clone(progress);
    SdkBody::from_body_1_x(Seen {
        body,
        rest: Bytes::new(),
        progress,
        way,
    })
}

/// Where a body goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Out,
    In,
}

/// A body whose passing is noted.
struct Seen {
    body: SdkBody,
    /// What was taken from the body and not yet handed on.
    rest: Bytes,
    progress: Arc<Progress>,
    way: Direction,
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seen")
    }
}

impl Body for Seen {
    type Data = Bytes;
    type Error = aws_sdk_s3::error::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            this.rest = match frame.into_data() {
                Ok(data) => data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            };
        }
        let piece = match this.way {
            Direction::Out => this.rest.split_to(this.rest.len().min(PIECE_BYTES)),
            Direction::In => std::mem::take(&mut this.rest),
        };
        match this.way {
            Direction::Out => this.progress.sends(this.is_end_stream()),
            Direction::In => _ = this.progress.note(),
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
            && (self.body.is_end_stream() || self.body.size_hint().exact() == Some(0))
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        match Body::size_hint(&self.body).exact() {
            Some(bytes) => SizeHint::with_exact(bytes + rest),
            None => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(work)
    }

    /// Polls a body once.
    async fn next(body: &mut (impl Body<Data = Bytes> + Unpin)) -> Option<usize> {
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        frame.map(|frame| frame.ok().unwrap().into_data().unwrap().len())
    }

    #[test]
    fn a_request_may_take_long_but_not_stand_still() {
        const STEP: Duration = Duration::from_millis(60);
        const LIMIT: Duration = Duration::from_millis(400);
        let moving = async {
            let progress = PROGRESS.with(Arc::clone);
            for _ in 0..10 {
                tokio::time::sleep(STEP).await;
                progress.note();
            }
            7
        };
        assert_eq!(run(watched(LIMIT, moving)), Some(7));
        assert_eq!(run(watched(LIMIT, std::future::pending::<()>())), None);
        // What is done within moves the whole.
        let within = async { watched(LIMIT, async { PROGRESS.with(Arc::clone) }).await };
        let (outer, inner) = run(async {
            let both = async { (PROGRESS.with(Arc::clone), within.await) };
            watched(LIMIT, both).await.unwrap()
        });
        assert!(Arc::ptr_eq(&outer, &inner.unwrap()));
    }

    #[test]
    fn a_body_is_sent_in_pieces_that_count_and_its_length_is_told() {
        let progress = Progress::new();
        let content = vec![7; 3 * PIECE_BYTES + 1];
        let mut body = seen(SdkBody::from(content), &progress, Direction::Out);
        let mut left = 3 * PIECE_BYTES + 1;
        for _ in 0..3 {
            assert_eq!(Body::size_hint(&body).exact(), Some(left as u64));
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(run(next(&mut body)), Some(PIECE_BYTES));
            assert_eq!(progress.sent.load(Ordering::Relaxed), 0);
            left -= PIECE_BYTES;
        }
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(run(next(&mut body)), Some(1));
        // The transport may not ask a body of known length for its end.
        let sent = progress.sent.load(Ordering::Relaxed);
        assert!(sent >= 6_000, "{sent}");
        assert!(Body::is_end_stream(&body));
        assert_eq!(run(next(&mut body)), None);
        // What the buffers hold has as much time again.
        let moved = progress.moved.load(Ordering::Relaxed);
        assert_eq!(
            progress.deadline(Duration::from_secs(1)) - progress.begun,
            Duration::from_secs(1) + Duration::from_micros(moved + sent)
        );
    }

    #[test]
    fn ages_go_by_the_clock_of_the_server() {
        let clock = Clock::default();
        let hours =
            |n: i64| DateTime::from_secs(DateTime::from(SystemTime::now()).secs() + n * 3600);
        let about = |found: Duration, hours: u64| found.as_secs().abs_diff(hours * 3600) <= 2;
        assert!(about(clock.since(&hours(-1)), 1));
        assert_eq!(clock.since(&hours(1)), Duration::ZERO);
        for (date, age) in [(hours(2), 3), (hours(-1), 0)] {
            clock.says(&date.fmt(DateTimeFormat::HttpDate).unwrap());
            assert!(about(clock.since(&hours(-1)), age), "{date:?}");
        }
        clock.says("yesterday");
        assert_eq!(clock.since(&hours(0)), Duration::ZERO);
    }
}
