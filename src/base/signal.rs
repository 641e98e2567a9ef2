//! SIGINT, SIGTERM and a deadline as a flag that stages look at between samples.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::base::error::{Error, Kind, Result};

/// How long a run may take to leave things tidy after a signal. What is then half written has a temporary name, and the
/// next run removes it.
const GRACE: Duration = Duration::from_secs(4);
/// How long before its deadline a run is stopped: time to end by itself, and to write summary and report.
const EARLY: Duration = Duration::from_secs(10);
/// The flag's value once the deadline is near; no signal has this number.
const DEADLINE: usize = usize::MAX;

/// Says whether the run was asked to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicUsize>);

impl Stop {
    /// Has SIGINT, SIGTERM and the deadline raise the flag; refuses a deadline that is here already. A run that does not end by itself
    /// then is ended after a few seconds, with `last` called right before.
    pub(crate) fn watch(
        &self,
        deadline: Option<SystemTime>,
        last: impl FnOnce(&Error) + Send + 'static,
    ) -> Result<()> {
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_usize(signal, Arc::clone(&self.0), signal as usize)
                .map_err(|error| Error::io("signal handler", error))?;
        }
        let stop = self.clone();
        stop.look_at(deadline);
        if stop.0.load(Ordering::Relaxed) == DEADLINE {
            let what = format!(
                "the deadline of this workflow (`ARGO_DEADLINE`) is past or less than {} s away, nothing was done: give it more time and run again",
                EARLY.as_secs()
            );
            return Err(Error::new(Kind::Transient, what));
        }
        let watch = move || {
            let error = loop {
                stop.look_at(deadline);
                match stop.check() {
                    Ok(()) => std::thread::sleep(Duration::from_millis(100)),
                    Err(error) => break error,
                }
            };
            std::thread::sleep(GRACE);
            last(&error);
            std::process::exit(i32::from(error.kind().exit_code()));
        };
        std::thread::Builder::new()
            .name("watch".to_owned())
            .spawn(watch)
            .map_err(|error| Error::io("watching thread", error))?;
        Ok(())
    }

    /// Raises the flag if the deadline is near; a signal that came before stays what it is.
    fn look_at(&self, deadline: Option<SystemTime>) {
        if deadline.is_some_and(|deadline| SystemTime::now() + EARLY >= deadline) {
            let _ = self
                .0
                .compare_exchange(0, DEADLINE, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// An error once the flag is raised.
    pub(crate) fn check(&self) -> Result<()> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            DEADLINE => Err(Error::new(
                Kind::Transient,
                format!(
                    "stopped {} s before the deadline of this workflow (`ARGO_DEADLINE`): finished shards are kept, run the same command again with more time to go on",
                    EARLY.as_secs()
                ),
            )),
            signal => Err(Error::new(
                Kind::Interrupted(i32::try_from(signal).unwrap_or(0)),
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

    #[test]
    fn a_deadline_raises_the_flag_in_time_and_never_over_a_signal() {
        let stop = Stop::default();
        stop.look_at(None);
        stop.look_at(Some(SystemTime::now() + EARLY * 2));
        stop.check().unwrap();
        stop.look_at(Some(SystemTime::now() + EARLY / 2));
        assert_eq!(stop.check().unwrap_err().kind(), Kind::Transient);

        let stop = Stop(Arc::new(AtomicUsize::new(2)));
        stop.look_at(Some(SystemTime::UNIX_EPOCH));
        assert_eq!(stop.check().unwrap_err().kind(), Kind::Interrupted(2));
    }
}
