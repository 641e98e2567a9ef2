//! What `src/base/sync.rs` is, by `shuttle`: each lock, wait and wake is a point where another thread may go on.

pub use std::sync::PoisonError;
pub use std::time::Duration;

pub use shuttle::sync::atomic::{AtomicUsize, Ordering};
pub use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};
pub use shuttle::thread::Builder;

use shuttle::rand::Rng;

/// A clock that says what the checker likes: between two looks at it nothing passed, or much.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub struct Instant(Duration);

impl Instant {
    pub fn now() -> Self {
        let times = [0, 0, 100, 1000, 10_000].map(Duration::from_millis);
        Self(times[shuttle::rand::thread_rng().gen_range(0..times.len())])
    }

    pub fn elapsed(self) -> Duration {
        Self::now() - self
    }
}

impl std::ops::Sub for Instant {
    type Output = Duration;

    fn sub(self, before: Self) -> Duration {
        self.0.saturating_sub(before.0)
    }
}

impl std::ops::Add<Duration> for Instant {
    type Output = Self;

    fn add(self, more: Duration) -> Self {
        Self(self.0 + more)
    }
}

pub fn thread_time() -> Duration {
    Duration::ZERO
}

/// A value that is sent once.
pub mod oneshot {
    use super::{Arc, Condvar, Mutex};

    struct Channel<T> {
        state: Mutex<State<T>>,
        changed: Condvar,
    }

    struct State<T> {
        value: Option<T>,
        sender: bool,
        receiver: bool,
    }

    pub struct Sender<T>(Arc<Channel<T>>);

    pub struct Receiver<T>(Arc<Channel<T>>);

    pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let channel = Arc::new(Channel {
            state: Mutex::new(State {
                value: None,
                sender: true,
                receiver: true,
            }),
            changed: Condvar::new(),
        });
        (Sender(Arc::clone(&channel)), Receiver(channel))
    }

    impl<T> Sender<T> {
        pub fn send(self, value: T) -> Result<(), T> {
            let mut state = self.0.state.lock().unwrap();
            match state.receiver {
                true => {
                    state.value = Some(value);
                    Ok(())
                }
                false => Err(value),
            }
        }

        pub fn is_closed(&self) -> bool {
            !self.0.state.lock().unwrap().receiver
        }
    }

    impl<T> Drop for Sender<T> {
        fn drop(&mut self) {
            self.0.state.lock().unwrap().sender = false;
            self.0.changed.notify_all();
        }
    }

    impl<T> Receiver<T> {
        pub fn blocking_recv(self) -> Result<T, ()> {
            let mut state = self.0.state.lock().unwrap();
            while state.sender {
                state = self.0.changed.wait(state).unwrap();
            }
            state.value.take().ok_or(())
        }
    }

    impl<T> Drop for Receiver<T> {
        fn drop(&mut self) {
            self.0.state.lock().unwrap().receiver = false;
        }
    }
}
