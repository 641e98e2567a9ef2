//! The connection of a process: what its requests share, and the one place where they are tried again.
//!
//! The client library's own retries are off: their shared quota runs dry in the first seconds of a push back, and they end at
//! the headers of an answer. Here each request has attempts and a time, bodies included, and all share one [`Pace`].

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_sdk_s3::Client;
use aws_sdk_s3::types::RequestPayer;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::base::error::{Error, Result};
use crate::base::reactor::{Pending, promise};
use crate::base::signal::Stop;
use crate::model::counters::Counters;
use crate::store::Access;
use crate::store::S3Options;
use crate::store::s3::client::Server;
use crate::store::s3::credentials::CredentialsCache;
use crate::store::s3::get::Getter;
use crate::store::s3::hedge::Latencies;
use crate::store::s3::link::{FIRST_DOWN, FIRST_UP, Link, Share};
use crate::store::s3::pace::Pace;
use crate::store::s3::tls::speaks_tls;
use crate::store::s3::trouble::{Cause, RequestError};
use crate::store::s3::watch::{Clock, watched};

/// Reads at once when nothing is said: at 150 ms each, 512 reads of 110 KB are 346 MB/s and 64 are 45.
const READS: usize = 512;
/// Memory of one read in flight besides its content: connection, TLS and request state.
const READ_BYTES: u64 = 224 << 10;
/// Attempts before anything was ever answered: a wrong address should not take minutes to be told.
const FIRST_ATTEMPTS: u32 = 6;
/// Attempts when the server says that credentials have ended which are fetched again.
const RENEWED_ATTEMPTS: u32 = 3;
/// First and longest wait of one request before it is tried again, halved at random.
const BACKOFF: std::ops::Range<Duration> = Duration::from_millis(100)..Duration::from_secs(10);

/// The connection of a process, made when first needed; its clones share it.
#[derive(Clone, Default)]
pub(crate) struct Network(Arc<Mutex<Option<Arc<Connection>>>>);

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Network")
    }
}

impl Network {
    pub(super) fn connection(&self, access: &Access) -> Result<Arc<Connection>> {
        let mut connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*connection {
            Some(connection) => Ok(Arc::clone(connection)),
            None => {
                let new = Arc::new(Connection::open(access)?);
                Ok(Arc::clone(connection.insert(new)))
            }
        }
    }
}

/// A client of one server, with everything that its requests share.
pub(super) struct Connection {
    runtime: Option<Runtime>,
    pub(super) client: Client,
    /// What objects are read with.
    pub(super) getter: Getter,
    keeper: Option<CredentialsCache>,
    pub(super) pace: Arc<Pace>,
    /// What is on its way from the server, and to it.
    pub(super) down: Arc<Link>,
    up: Arc<Link>,
    /// The server's.
    pub(super) clock: Arc<Clock>,
    /// How long reads took lately.
    pub(super) latencies: Latencies,
    pub(super) options: S3Options,
    pub(super) counters: Arc<Counters>,
    /// Reads at once at most.
    pub(super) reads: usize,
    /// Nobody in between can touch bodies: they need no digest in the signature, which would cost a third of the processor.
    pub(super) untouchable: bool,
    endpoint: Option<String>,
    /// The proxy on the way to the server, for messages.
    proxy: Option<String>,
    stop: Stop,
    /// The server answered at least once.
    reached: AtomicBool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Requests that nobody waits for must not keep the process.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Keeps a promise with what `work` comes to, unless nobody wants it any more.
pub(super) async fn keep<T>(
    mut promise: oneshot::Sender<Result<T>>,
    work: impl Future<Output = Result<T>>,
) {
    tokio::select! {
        value = work => { _ = promise.send(value); }
        () = promise.closed() => {}
    }
}

/// One request, for messages and limits.
pub(super) struct Call {
    /// The permission it needs.
    pub(super) action: &'static str,
    /// What it is about.
    pub(super) object: String,
    /// Longest time of an attempt in which nothing moves.
    pub(super) limit: Duration,
    load: Load,
}

/// Bytes that an attempt moves, where they are many.
#[derive(Clone, Copy)]
enum Load {
    None,
    Up(u64),
    Down(u64),
}

impl Call {
    /// It brings so many bytes.
    pub(super) fn down(self, bytes: u64) -> Self {
        let load = Load::Down(bytes);
        Self { load, ..self }
    }

    /// It takes so many bytes along.
    pub(super) fn up(self, bytes: u64) -> Self {
        let load = Load::Up(bytes);
        Self { load, ..self }
    }
}

impl Connection {
    fn open(access: &Access) -> Result<Self> {
        let options = access.s3.clone();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(cores)
            .thread_name("network")
            .enable_all()
            .build()
            .map_err(|error| Error::io("network threads", error))?;
        // An eighth of the memory at most is for connections, half of the open files for everything else.
        let affordable = usize::try_from(access.memory / 8 / READ_BYTES).unwrap_or(READS);
        let reads = access.reads.unwrap_or(READS.min(affordable.max(16)));
        let reads = reads.min(access.open_files).max(1);
        let server = runtime.block_on(Server::open(&options))?;
        let pace = Pace::new(reads);
        let counters = Arc::clone(&access.counters);
        runtime.spawn(Pace::run(Arc::downgrade(&pace), counters));
        Ok(Self {
            runtime: Some(runtime),
            client: server.client,
            getter: server.getter,
            keeper: server.keeper,
            pace,
            down: Link::new(FIRST_DOWN, options.request_timeout),
            up: Link::new(FIRST_UP, options.request_timeout),
            clock: server.clock,
            latencies: Latencies::default(),
            options,
            counters: Arc::clone(&access.counters),
            reads,
            untouchable: server.untouchable,
            endpoint: server.endpoint,
            proxy: server.proxy,
            stop: access.stop.clone(),
            reached: AtomicBool::new(false),
        })
    }

    /// Memory that reads in flight take, besides what they read.
    pub(super) fn read_bytes(&self) -> u64 {
        self.reads as u64 * READ_BYTES
    }

    /// The value of the request-payer header.
    pub(super) fn payer(&self) -> Option<RequestPayer> {
        self.options
            .request_payer
            .then_some(RequestPayer::Requester)
    }

    /// A call whose attempts may stand still for `--request-timeout`.
    pub(super) fn call(&self, action: &'static str, object: impl Into<String>) -> Call {
        Call {
            action,
            object: object.into(),
            limit: self.options.request_timeout,
            load: Load::None,
        }
    }

    /// Runs a future to its end on this thread.
    pub(super) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        match &self.runtime {
            Some(runtime) => runtime.block_on(work),
            // Only `drop` takes it.
            None => unreachable!("the connection is in use"),
        }
    }

    /// Starts a future on the network threads; it is dropped when nobody wants its value any more.
    pub(super) fn start<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Pending<T> {
        let (promise, pending) = promise();
        self.spawn(keep(promise, work));
        pending
    }

    /// Starts a future on the network threads that ends by itself when nobody wants what it does.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(work);
        }
    }

    /// Makes a request until it succeeds, or fails for good, or the user's patience is used up.
    pub(super) async fn attempt<T, F>(
        &self,
        call: &Call,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, RequestError>
    where
        F: Future<Output = Result<T, RequestError>>,
    {
        let mut attempts = 0;
        // Time without success. Waiting for the link is none of it, nor is moving: an attempt counts for what it may stand still.
        let mut spent = Duration::ZERO;
        loop {
            self.ready().await?;
            attempts += 1;
            let trouble = match self.once(call, &mut spent, attempt()).await {
                Ok(value) => {
                    self.reached.store(true, Ordering::Relaxed);
                    return Ok(value);
                }
                Err(trouble) => trouble,
            };
            let trouble = self.judge(trouble).await;
            if trouble.status > 0 {
                self.reached.store(true, Ordering::Relaxed);
            }
            let longest = (BACKOFF.start * 2u32.pow(attempts.min(10) - 1)).min(BACKOFF.end);
            let wait = longest.mul_f64(0.5 + fastrand::f64() / 2.0);
            let wait = trouble.wait.unwrap_or(wait).min(BACKOFF.end);
            spent += wait;
            if !self.may_pass(&trouble, attempts) || !self.is_patient(spent, &trouble, attempts) {
                return Err(trouble);
            }
            self.counters.retry();
            tracing::debug!(
                action = call.action,
                object = call.object,
                attempts,
                reason = ?trouble.cause,
                status = trouble.status,
                code = trouble.code,
                "trying again"
            );
            if trouble.is_throttle() {
                self.counters.push_back();
                self.pace.push_back(trouble.wait);
            }
            self.sleep(wait).await?;
        }
    }

    /// Looks again at what went wrong before the server ever answered: whether the URL has the wrong scheme.
    async fn judge(&self, trouble: RequestError) -> RequestError {
        let first = !self.reached.load(Ordering::Relaxed);
        let Some(endpoint) = self.endpoint.as_deref().filter(|_| first) else {
            return trouble.after_answers();
        };
        if trouble.cause == Cause::NoTls {
            let meant = endpoint.replacen("https://", "http://", 1);
            return RequestError::new(
                Cause::Scheme,
                format!("does not speak TLS: give `--endpoint-url {meant}`"),
            );
        }
        // Servers under TLS hang up, or say 400 without a code of S3 when they are not spoken to in TLS.
        let odd = trouble.cause == Cause::Connection
            || (trouble.status == 400 && trouble.code.is_empty());
        if odd
            && self.proxy.is_none()
            && let Some(rest) = endpoint.strip_prefix("http://")
            && let Some((host, port)) = authority(rest)
            && speaks_tls(host, port).await
        {
            let what = format!("speaks TLS: give `--endpoint-url https://{rest}`");
            return RequestError::new(Cause::Scheme, what);
        }
        trouble
    }

    /// Waits for credentials: the time that they take is not the server's.
    async fn signer(&self) -> Result<(), RequestError> {
        let Some(keeper) = &self.keeper else {
            return Ok(());
        };
        tokio::select! {
            ready = keeper.ready() => ready.map_err(|unavailable| RequestError::from(&unavailable)),
            stopped = self.stopped() => Err(stopped),
        }
    }

    /// Whether the same request may succeed later, perhaps with other credentials.
    fn may_pass(&self, trouble: &RequestError, attempts: u32) -> bool {
        let renewed = || {
            let keeper = self.keeper.as_ref();
            attempts < RENEWED_ATTEMPTS && keeper.is_some_and(CredentialsCache::renew)
        };
        trouble.may_pass(attempts) || (trouble.is_expired() && renewed())
    }

    /// Whether to try once more, at this time after the first attempt began.
    fn is_patient(&self, then: Duration, trouble: &RequestError, attempts: u32) -> bool {
        let options = &self.options;
        match self.reached.load(Ordering::Relaxed) {
            true => then <= options.retry_for,
            false => {
                // Who gives out credentials is known to be right, or would have said so.
                let known = trouble.cause == Cause::CredentialsAway;
                then <= options.retry_for.min(options.request_timeout * 2)
                    && (known || attempts < FIRST_ATTEMPTS)
            }
        }
    }

    /// Makes one attempt, with its share of the link, and adds to `spent` the time in which it may have stood still.
    async fn once<T>(
        &self,
        call: &Call,
        spent: &mut Duration,
        attempt: impl Future<Output = Result<T, RequestError>>,
    ) -> Result<T, RequestError> {
        let begun = Instant::now();
        let signer = self.signer().await;
        *spent += begun.elapsed();
        signer?;
        let share = self.share(call.load).await?;
        let begun = Instant::now();
        let result = match watched(call.limit, attempt).await {
            Some(result) => result,
            None => Err(RequestError::new(Cause::Timeout, "no answer in time")),
        };
        *spent += begun.elapsed().min(call.limit);
        match (&share, &result) {
            (Some(share), Ok(_)) => share.done(),
            (Some(share), Err(trouble)) if trouble.cause == Cause::Timeout => share.timed_out(),
            _ => {}
        }
        result
    }

    /// Waits until the link has room; an error when the run is to stop.
    async fn share(&self, load: Load) -> Result<Option<Share>, RequestError> {
        let (link, bytes) = match load {
            Load::None => return Ok(None),
            Load::Up(bytes) => (&self.up, bytes),
            Load::Down(bytes) => (&self.down, bytes),
        };
        tokio::select! {
            share = link.share(bytes) => Ok(Some(share)),
            stopped = self.stopped() => Err(stopped),
        }
    }

    /// Waits until requests may be made; an error when the run is to stop.
    async fn ready(&self) -> Result<(), RequestError> {
        tokio::select! {
            () = self.pace.ready() => self.check_stop(),
            stopped = self.stopped() => Err(stopped),
        }
    }

    /// Sleeps, but not when the run is to stop.
    pub(super) async fn sleep(&self, time: Duration) -> Result<(), RequestError> {
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            stopped = self.stopped() => Err(stopped),
        }
    }

    fn check_stop(&self) -> Result<(), RequestError> {
        let stopped = |error: Error| RequestError::new(Cause::Other, error.to_string());
        self.stop.check().map_err(stopped)
    }

    async fn stopped(&self) -> RequestError {
        loop {
            if let Err(stopped) = self.check_stop() {
                return stopped;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The error for people; a run that was told to stop says only that.
    pub(super) fn explain(&self, call: &Call, trouble: &RequestError) -> Error {
        match self.stop.check() {
            Err(stopped) => stopped,
            Ok(()) => {
                let server = self.endpoint.as_deref().unwrap_or("S3");
                let server = match &self.proxy {
                    Some(proxy) => format!("{server} through the proxy {proxy}"),
                    None => server.to_owned(),
                };
                trouble.explain(call.action, &call.object, Some(&server))
            }
        }
    }
}

/// Host and port of a URL without TLS, by what follows its scheme.
fn authority(rest: &str) -> Option<(&str, u16)> {
    let authority = rest.split('/').next()?;
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            Some((host.trim_matches(['[', ']']), port.parse().ok()?))
        }
        _ => Some((authority.trim_matches(['[', ']']), 80)),
    }
}
