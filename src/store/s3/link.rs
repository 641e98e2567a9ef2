//! How many bytes are on their way at once in one direction: what the link carries in a few seconds, and not the whole memory.
//!
//! As long as requests end within a moment, more of them do no harm, and the window grows whenever somebody waits for it. When they
//! take long, fewer are tried: where these move as much in the same time, it was the link that was full, and fewer it stays.
//! Where they move less, each connection is slow and the link is not: then more are tried, as long as that pays. A request that
//! ran out of time halves the window.

use tokio::sync::Notify;

use crate::base::sync::{Arc, Duration, Instant, Mutex, MutexGuard, PoisonError};

/// Bytes on their way at first from the server: 300 pictures of 110 KB. To it they are fewer: the buffers of this machine swallow
/// megabytes of each request, and what becomes of those cannot be seen.
pub(super) const FIRST_DOWN: u64 = 32 << 20;
pub(super) const FIRST_UP: u64 = 8 << 20;
/// The window's bounds.
const WINDOW: std::ops::RangeInclusive<u64> = 1 << 20..=4 << 30;
/// So many requests run whatever their size: the next one is on its way while the answer to the last is waited for.
const FEWEST: usize = 2;
/// Longest time that a request should take; what part of it a request may take before more at once have to pay; and what part of
/// it shows that many more do no harm.
const SANE: Duration = Duration::from_secs(4);
const BRISK: f64 = 0.5;
const QUICK: f64 = 0.125;
/// Fewer are as good when they move this part of what more did; more are better when they move so many times as much.
const AS_GOOD: f64 = 0.8;
const BETTER: f64 = 1.3;
/// The smallest part of itself that the window is tried at.
const LEAST: f64 = 0.125;
/// Rounds after a trial that failed until the same is tried again, and after a time-out until the window grows again.
const REST: u32 = 16;
/// A round takes at least this long, so that its rate means something.
const ROUND: Duration = Duration::from_millis(100);

/// The bytes on their way in one direction.
pub(super) struct Link {
    window: Mutex<Window>,
    /// Those who wait, first come, first served.
    turn: tokio::sync::Mutex<()>,
    /// There may be room for the one whose turn it is.
    room: Notify,
}

/// A request's part of the link; free again when dropped.
pub(super) struct Share {
    link: Arc<Link>,
    bytes: u64,
    begun: Instant,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut window = self.link.window();
        window.bytes -= self.bytes;
        window.requests -= 1;
        drop(window);
        self.link.room.notify_one();
    }
}

impl Share {
    /// The request has done what it was to do.
    pub(super) fn done(&self) {
        let now = Instant::now();
        let took = now - self.begun;
        self.link.window().done(now, self.bytes, took);
    }

    /// The request stood still for too long.
    pub(super) fn timed_out(&self) {
        self.link.window().timed_out(Instant::now(), self.begun);
    }
}

impl Link {
    /// A link of unknown speed, for requests that may stand still for `limit`; at first so many bytes are on their way.
    pub(super) fn new(first: u64, limit: Duration) -> Arc<Self> {
        Arc::new(Self {
            window: Mutex::new(Window::new(first, SANE.min(limit / 2))),
            turn: tokio::sync::Mutex::default(),
            room: Notify::new(),
        })
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for so many bytes; one request always finds room.
    pub(super) async fn share(self: &Arc<Self>, bytes: u64) -> Share {
        if let Some(share) = self.try_share(bytes) {
            return share;
        }
        {
            let mut window = self.window();
            window.waiting += 1;
            window.waited = true;
        }
        let _waiting = Waiting(self);
        let _turn = self.turn.lock().await;
        loop {
            let room = self.room.notified();
            if let Some(share) = self.take(bytes, 1) {
                return share;
            }
            room.await;
        }
    }

    /// The same if nobody has to wait.
    pub(super) fn try_share(self: &Arc<Self>, bytes: u64) -> Option<Share> {
        self.take(bytes, 0)
    }

    /// Takes room if there is some and no more than so many wait for it.
    fn take(self: &Arc<Self>, bytes: u64, waiting: usize) -> Option<Share> {
        let now = Instant::now();
        let mut window = self.window();
        // The one whose turn it is comes before those behind it.
        if waiting == 0 && window.waiting > 0 || !window.enter(now, bytes) {
            return None;
        }
        drop(window);
        // There may be room for the next one too.
        self.room.notify_one();
        Some(Share {
            link: Arc::clone(self),
            bytes,
            begun: now,
        })
    }
}

/// Counts one that waits, even if it gives up.
struct Waiting<'a>(&'a Arc<Link>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.window().waiting -= 1;
    }
}

/// What is tried: the window and the rate before, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trial {
    Fewer { window: u64, rate: f64 },
    More { window: u64, rate: f64 },
}

/// The window, and what is known of the link. Pure: time and events come from outside.
struct Window {
    sane: Duration,
    limit: u64,
    /// On their way now.
    bytes: u64,
    requests: usize,
    waiting: usize,
    /// Bytes that were on their way when the window changed: until they are done, nothing is learnt.
    settling: u64,
    round: Round,
    /// Somebody had to wait in this round.
    waited: bool,
    trial: Option<Trial>,
    /// Rounds until fewer, or more, may be tried again.
    rest_fewer: u32,
    rest_more: u32,
    /// When a time-out last made it smaller.
    cut: Option<Instant>,
}

/// As many bytes as were on their way at most, and how long they took.
struct Round {
    begun: Instant,
    bytes: u64,
    /// Seconds of the requests, each times its bytes.
    byte_seconds: f64,
    most_bytes: u64,
    most_requests: usize,
}

impl Window {
    fn new(first: u64, sane: Duration) -> Self {
        Self {
            sane,
            limit: first,
            bytes: 0,
            requests: 0,
            waiting: 0,
            settling: 0,
            round: Round::new(Instant::now()),
            waited: false,
            trial: None,
            rest_fewer: 0,
            rest_more: 0,
            cut: None,
        }
    }

    fn enter(&mut self, now: Instant, bytes: u64) -> bool {
        if self.requests >= FEWEST && self.bytes + bytes > self.limit {
            return false;
        }
        if self.requests == 0 {
            // Time in which nothing was asked for says nothing.
            self.begin(now);
        }
        self.bytes += bytes;
        self.requests += 1;
        self.round.most_bytes = self.round.most_bytes.max(self.bytes);
        self.round.most_requests = self.round.most_requests.max(self.requests);
        true
    }

    /// Begins a round.
    fn begin(&mut self, now: Instant) {
        self.round = Round {
            most_bytes: self.bytes,
            most_requests: self.requests,
            ..Round::new(now)
        };
        self.waited = self.waiting > 0;
    }

    fn set(&mut self, limit: u64) {
        self.limit = limit.clamp(*WINDOW.start(), *WINDOW.end());
        self.settling = self.bytes;
    }

    fn done(&mut self, now: Instant, bytes: u64, took: Duration) {
        if self.settling > 0 {
            self.settling = self.settling.saturating_sub(bytes);
            if self.settling == 0 {
                self.begin(now);
            }
            return;
        }
        self.round.bytes += bytes;
        self.round.byte_seconds += took.as_secs_f64() * bytes as f64;
        let length = now - self.round.begun;
        if self.round.bytes >= self.round.most_bytes && length >= ROUND {
            let rate = self.round.bytes as f64 / length.as_secs_f64();
            let seconds = self.round.byte_seconds / self.round.bytes.max(1) as f64;
            self.judge(rate, seconds);
            // This one is done, although it still has its share.
            self.settling = self.settling.saturating_sub(bytes);
            self.begin(now);
        }
    }

    /// Learns from a round: bytes a second, and the seconds that a request took.
    fn judge(&mut self, rate: f64, seconds: f64) {
        let sane = self.sane.as_secs_f64();
        self.rest_fewer = self.rest_fewer.saturating_sub(1);
        self.rest_more = self.rest_more.saturating_sub(1);
        let most = self.round.most_bytes;
        let trial = self.trial.take();
        if let Some(Trial::Fewer { rate: before, .. }) = trial
            && rate >= before * AS_GOOD
        {
            self.rest_more = REST;
        }
        match trial {
            Some(Trial::Fewer {
                window,
                rate: before,
            }) if rate < before * AS_GOOD => {
                self.rest_fewer = REST;
                self.more(window, before);
            }
            Some(Trial::More { rate: before, .. }) if rate >= before * BETTER => {
                let wanted = self.waited && seconds > sane * BRISK;
                if wanted {
                    self.more(most, rate);
                }
            }
            // Where nobody waited it was not the window that kept the rate where it was.
            Some(Trial::More { window, .. }) if self.waited => {
                self.rest_more = REST;
                self.set(window);
            }
            _ if seconds <= sane * BRISK => {
                let wanted = self.waited && self.rest_more == 0;
                if wanted {
                    let times = if seconds <= sane * QUICK { 4 } else { 2 };
                    self.set(self.limit.max(most) * times);
                    // Nothing is compared: the round after this one counts from now.
                    self.settling = 0;
                }
            }
            _ if seconds > sane && self.rest_fewer == 0 && self.round.most_requests > FEWEST => {
                let window = most.min(self.limit);
                let part = (sane / seconds).clamp(LEAST, BRISK);
                self.trial = Some(Trial::Fewer { window, rate });
                self.set((window as f64 * part) as u64);
            }
            _ if self.waited && self.rest_more == 0 => self.more(most.max(self.limit), rate),
            _ => {}
        }
    }

    fn more(&mut self, window: u64, rate: f64) {
        self.trial = Some(Trial::More { window, rate });
        self.set(window * 2);
    }

    fn timed_out(&mut self, now: Instant, begun: Instant) {
        // Requests that were on their way at the last cut could not yet gain by it.
        if self.cut.is_some_and(|cut| begun < cut) {
            return;
        }
        self.cut = Some(now);
        self.trial = None;
        self.rest_more = REST;
        self.set(self.limit.min(self.round.most_bytes) / 2);
        self.settling = 0;
        self.begin(now);
    }
}

impl Round {
    fn new(begun: Instant) -> Self {
        Self {
            begun,
            bytes: 0,
            byte_seconds: 0.0,
            most_bytes: 0,
            most_requests: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link that is shared evenly, and how fast one connection is at most, in bytes a second.
    #[derive(Clone, Copy)]
    struct Model {
        link: f64,
        connection: f64,
        latency: f64,
    }

    /// What came of it in the last third of the time.
    #[derive(Debug)]
    struct Outcome {
        rate: f64,
        requests: f64,
        longest: f64,
    }

    /// Requests of one size, so many wanted at once, for so many seconds.
    fn simulate(
        window: &mut Window,
        model: Model,
        bytes: u64,
        wanted: usize,
        time: f64,
    ) -> Outcome {
        const STEP: f64 = 0.01;
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let mut active: Vec<(f64, f64)> = Vec::new();
        let (mut moved, mut requests, mut longest, mut steps) = (0, 0, 0.0f64, 0);
        let mut now = 0.0;
        while now < time {
            while active.len() < wanted {
                if !window.enter(at(now), bytes) {
                    window.waited = true;
                    break;
                }
                active.push((now, bytes as f64));
            }
            let flowing = active
                .iter()
                .filter(|(b, _)| now >= b + model.latency)
                .count();
            let rate = (model.link / flowing.max(1) as f64).min(model.connection);
            now += STEP;
            for (begun, left) in &mut active {
                if now >= *begun + model.latency {
                    *left -= rate * STEP;
                }
            }
            let late = now > time * 2.0 / 3.0;
            for (begun, _) in active.extract_if(.., |(_, left)| *left <= 0.0) {
                window.done(at(now), bytes, at(now) - at(begun));
                window.bytes -= bytes;
                window.requests -= 1;
                if late {
                    moved += bytes;
                    longest = longest.max(now - begun);
                }
            }
            if late {
                requests += active.len();
                steps += 1;
            }
        }
        (window.bytes, window.requests) = (0, 0);
        Outcome {
            rate: moved as f64 / (time / 3.0),
            requests: requests as f64 / f64::from(steps),
            longest,
        }
    }

    const PART: u64 = 8 << 20;
    const LAN: Model = Model {
        link: 1.2e9,
        connection: 90e6,
        latency: 0.03,
    };

    fn mbits(mbits: f64) -> Model {
        Model {
            link: mbits * 125e3,
            ..LAN
        }
    }

    #[test]
    fn a_slow_link_gets_few_requests_at_once_and_is_still_full() {
        for (speed, most) in [(5.0, 2.5), (20.0, 2.5), (50.0, 4.5), (100.0, 8.5)] {
            let mut window = Window::new(FIRST_UP, SANE);
            let outcome = simulate(&mut window, mbits(speed), PART, 64, 1200.0);
            assert!(outcome.rate > speed * 125e3 * 0.9, "{speed}: {outcome:?}");
            assert!(outcome.requests <= most, "{speed}: {outcome:?}");
        }
    }

    #[test]
    fn reads_of_a_slow_link_take_a_sane_time() {
        for (speed, bytes) in [(5.0, 110_000), (20.0, 2_000_000), (100.0, 2_000_000)] {
            let mut window = Window::new(FIRST_DOWN, SANE);
            let outcome = simulate(&mut window, mbits(speed), bytes, 256, 900.0);
            assert!(outcome.rate > speed * 125e3 * 0.9, "{speed}: {outcome:?}");
            // While more are tried it may be twice as long.
            assert!(outcome.longest < 10.0, "{speed}: {outcome:?}");
        }
    }

    #[test]
    fn small_objects_on_a_fast_link_never_wait() {
        let latency = Model {
            latency: 0.15,
            ..LAN
        };
        let mut window = Window::new(FIRST_DOWN, SANE);
        let outcome = simulate(&mut window, latency, 110_000, 512, 6.0);
        // Of 512 the ones that ended in a step are not counted.
        assert!(outcome.requests > 470.0, "{outcome:?}");
    }

    #[test]
    fn a_fast_link_is_filled_within_moments() {
        let mut window = Window::new(FIRST_UP, SANE);
        let part = Model {
            connection: 21e6,
            ..LAN
        };
        let outcome = simulate(&mut window, part, PART, 64, 6.0);
        assert!(outcome.rate > 1e9 && outcome.requests > 55.0, "{outcome:?}");
    }

    #[test]
    fn slow_connections_of_a_fast_link_are_many() {
        for connection in [0.5e6, 1e6, 3e6] {
            let mut window = Window::new(FIRST_UP, SANE);
            let model = Model { connection, ..LAN };
            let outcome = simulate(&mut window, model, PART, 64, 1200.0);
            assert!(outcome.rate > connection * 64.0 * 0.85, "{outcome:?}");
        }
    }

    #[test]
    fn a_slow_server_is_not_taken_for_a_slow_link() {
        let model = Model {
            latency: 6.0,
            ..LAN
        };
        let mut window = Window::new(FIRST_DOWN, SANE);
        let outcome = simulate(&mut window, model, 110_000, 512, 600.0);
        assert!(outcome.rate > 0.8 * 512.0 * 110e3 / 6.0, "{outcome:?}");
    }

    #[test]
    fn a_link_that_became_fast_again_is_used_again() {
        let mut window = Window::new(FIRST_UP, SANE);
        simulate(&mut window, mbits(5.0), PART, 64, 900.0);
        let outcome = simulate(&mut window, LAN, PART, 64, 60.0);
        assert!(outcome.rate > 1e9, "{outcome:?}");
    }

    #[test]
    fn time_outs_halve_the_window_once_for_all_that_were_on_their_way() {
        let mut window = Window::new(FIRST_DOWN, SANE);
        let begun = Instant::now();
        for _ in 0..4 {
            assert!(window.enter(begun, PART));
        }
        assert!(!window.enter(begun, PART));
        let later = begun + Duration::from_secs(30);
        for _ in 0..4 {
            window.timed_out(later, begun);
        }
        assert_eq!(window.limit, 2 * PART);
        for _ in 0..20 {
            window.timed_out(later, later);
        }
        assert_eq!(window.limit, *WINDOW.start());
    }

    #[test]
    fn whoever_waits_gets_room_in_turn_and_may_give_up() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let link = Link::new(FIRST_DOWN, Duration::from_secs(30));
            let first = link.share(FIRST_DOWN).await;
            // Larger than the window, and let in all the same: two always are.
            let second = link.share(FIRST_DOWN * 9).await;
            assert!(link.try_share(1).is_none());
            let wait = |bytes| {
                let link = Arc::clone(&link);
                tokio::spawn(async move { drop(link.share(bytes).await) })
            };
            let (third, fourth) = (wait(FIRST_DOWN), wait(5));
            tokio::task::yield_now().await;
            assert_eq!(link.window().waiting, 2);
            third.abort();
            tokio::task::yield_now().await;
            assert!(!fourth.is_finished());
            drop((first, second));
            fourth.await.unwrap();
            let window = link.window();
            assert_eq!((window.waiting, window.bytes, window.requests), (0, 0, 0));
        });
    }
}
