//! What `src/sync.rs` is, by `shuttle`: each lock, wait and wake is a point where another thread may go on.

pub use std::sync::PoisonError;
pub use std::time::Duration;

pub use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};
pub use shuttle::thread::Builder;

use shuttle::rand::Rng;

/// A clock that says what the checker likes: between two looks at it nothing passed, or the time of a slow read.
#[derive(Clone, Copy)]
pub struct Instant;

impl Instant {
    pub fn now() -> Self {
        Self
    }

    pub fn elapsed(self) -> Duration {
        match shuttle::rand::thread_rng().gen_range(0..3) {
            0 => Duration::from_millis(100),
            _ => Duration::ZERO,
        }
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
