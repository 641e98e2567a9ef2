//! SIGINT and SIGTERM as a flag that stages look at between samples.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::{Error, Kind, Result};

/// How long a run may take to leave things tidy after a signal. What is then half written has a temporary name, and the
/// next run removes it.
const GRACE: Duration = Duration::from_secs(4);

/// Says whether the run was asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicUsize>);

impl Stop {
    /// A flag that SIGINT and SIGTERM raise; a run that does not end by itself then is ended after a few seconds.
    pub fn on_signals() -> Result<Self> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_usize(signal, Arc::clone(&stop.0), signal as usize)
                .map_err(|error| Error::io("signal handler", error))?;
        }
        let watched = stop.clone();
        let watch = move || {
            while watched.signal().is_none() {
                std::thread::sleep(Duration::from_millis(100));
            }
            std::thread::sleep(GRACE);
            let code = watched
                .check()
                .err()
                .map_or(1, |error| error.kind().exit_code());
            std::process::exit(i32::from(code));
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .stack_size(64 * 1024)
            .spawn(watch)
            .map_err(|error| Error::io("signal thread", error))?;
        Ok(stop)
    }

    fn signal(&self) -> Option<i32> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }

    /// An error once a signal came.
    pub fn check(&self) -> Result<()> {
        match self.signal() {
            None => Ok(()),
            Some(signal) => Err(Error::new(
                Kind::Interrupted(signal),
                "interrupted: finished shards are kept, run the same command again to go on",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_flag_is_an_interruption_with_its_signal() {
        let stop = Stop::default();
        stop.check().unwrap();
        stop.0.store(15, Ordering::Relaxed);
        assert_eq!(stop.check().unwrap_err().kind(), Kind::Interrupted(15));
    }
}
