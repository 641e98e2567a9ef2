//! One error type: what happened, and what a caller can do about it.
//!
//! An error is classified where it is born, judged once in [`crate::model::policy`], and becomes an exit code once in `cli::run`.
//! Messages are lower case without a full stop: object, expected, actual, and the remedy after a colon.

use std::fmt;

/// What a caller can do about an error; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The command line is wrong or contradicts itself.
    Usage,
    /// The source as a whole cannot be used: nothing was published.
    Source,
    /// One sample's bytes are at fault; the only kind that `--on-error skip` may skip.
    Sample,
    /// Verification found damage.
    Damage,
    /// Another writer owns the destination.
    Conflict,
    /// An outage that a later run may not meet.
    Transient,
    /// A signal stopped the run; holds its number.
    Interrupted(i32),
    /// Given up because something else failed, which is the error to tell.
    Cancelled,
    /// Everything else.
    Failed,
}

impl Kind {
    /// The process exit code, the same for every verb.
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Failed | Kind::Cancelled => 1,
            Kind::Usage => 2,
            Kind::Source | Kind::Sample => 3,
            Kind::Damage => 4,
            Kind::Conflict => 10,
            Kind::Transient => 75,
            Kind::Interrupted(signal) => 128u8.saturating_add(u8::try_from(signal).unwrap_or(0)),
        }
    }
}

/// What went wrong, where, and the remedy.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    what: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    absent: bool,
}

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` with its message.
    pub(crate) fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            source: None,
            absent: false,
        }
    }

    /// Wrong or contradicting options.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Kind::Usage, what)
    }

    /// A source that cannot be used as it is.
    pub(crate) fn source_data(what: impl Into<String>) -> Self {
        Self::new(Kind::Source, what)
    }

    /// A failure nobody but a person can mend.
    pub(crate) fn failed(what: impl Into<String>) -> Self {
        Self::new(Kind::Failed, what)
    }

    /// An operating-system error on a named object, classified by its number. One of ours that went through a reader or
    /// writer keeps its words and kind: an outage stays one.
    pub(crate) fn io(what: impl Into<String>, error: std::io::Error) -> Self {
        use rustix::io::Errno;
        let error = match error.downcast::<Self>() {
            Ok(ours) => return ours,
            Err(error) => error,
        };
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        let (kind, remedy) = match errno {
            Some(Errno::NOSPC | Errno::DQUOT) => (
                Kind::Failed,
                ": free some space and run again, finished shards are kept",
            ),
            Some(Errno::ROFS) => (
                Kind::Failed,
                ": choose a destination that can be written to",
            ),
            Some(Errno::ACCESS | Errno::PERM) => {
                (Kind::Failed, ": check the permissions of this user")
            }
            Some(Errno::MFILE | Errno::NFILE) => (
                Kind::Transient,
                ": lower `--reads` or raise the open-file limit",
            ),
            Some(Errno::IO) => (
                Kind::Failed,
                ": look into the log of the kernel for this disk or mount, then run again",
            ),
            Some(Errno::AGAIN | Errno::BUSY) => (
                Kind::Transient,
                ": something else is using it, run again when that is done",
            ),
            Some(Errno::NOMEM) => (
                Kind::Transient,
                ": the system has no memory left: lower `--memory` or `--reads`, or run again when it has",
            ),
            Some(errno) if is_of_the_network(errno) => (
                Kind::Transient,
                ": the mount lost its server: see that it is mounted, then run again",
            ),
            _ => (Kind::Failed, ""),
        };
        let reason = reason(&error);
        Self {
            kind,
            what: format!("{}: {reason}{remedy}", what.into()),
            source: Some(Box::new(error)),
            absent: false,
        }
    }

    /// An operating-system error on what the user named: an outage stays one, and with anything else the name was wrong, which
    /// is of this kind and has this remedy.
    pub(crate) fn named(
        kind: Kind,
        what: impl Into<String>,
        error: std::io::Error,
        remedy: &str,
    ) -> Self {
        let what = what.into();
        let wrong = format!("{what}: {}: {remedy}", reason(&error));
        let error = Self::io(what, error);
        match error.kind {
            Kind::Transient => error,
            _ => Self::new(kind, wrong),
        }
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The same error with an object's name put in front.
    #[must_use]
    pub(crate) fn within(mut self, what: impl fmt::Display) -> Self {
        self.what = format!("{what}: {}", self.what);
        self
    }

    /// The same error with more said at its end.
    pub(crate) fn and(&self, more: &str) -> Self {
        Self {
            kind: self.kind,
            what: format!("{}{more}", self.what),
            source: None,
            absent: self.absent,
        }
    }

    /// Says that the whole place is not there: a directory or bucket, not something in it.
    #[must_use]
    pub(crate) fn of_absent_place(mut self) -> Self {
        self.absent = true;
        self
    }

    /// What became of a place that is known to have been there: if that is what the error says, an outage, because what is not mounted comes
    /// back, and a wrong name was no name that worked before.
    #[must_use]
    pub(crate) fn known_to_have_been_there(self, place: impl fmt::Display) -> Self {
        match self.absent {
            true => Self {
                kind: Kind::Transient,
                what: format!(
                    "{place}: the source is gone, and one was there when this dataset was planned: bring it back, or say where it is now, and run again"
                ),
                ..self
            },
            false => self,
        }
    }
}

/// The value, or `None` where what was read is damaged. Any other error stays one: an outage, or what a later version wrote, must not be
/// taken for something that is not there.
pub(crate) fn unless_damaged<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == Kind::Damage => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a mount says this when its server is not to be reached: NFS, Lustre, SMB, FUSE, block devices of a network.
fn is_of_the_network(errno: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    [
        Errno::COMM,
        Errno::CONNABORTED,
        Errno::CONNREFUSED,
        Errno::CONNRESET,
        Errno::HOSTDOWN,
        Errno::HOSTUNREACH,
        Errno::NETDOWN,
        Errno::NETRESET,
        Errno::NETUNREACH,
        Errno::NODEV,
        Errno::NOLINK,
        Errno::NOTCONN,
        Errno::REMOTEIO,
        Errno::SHUTDOWN,
        Errno::STALE,
        Errno::TIME,
        Errno::TIMEDOUT,
    ]
    .contains(&errno)
}

/// The system's own words without the `(os error N)` tail.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_the_exit_code_of_the_contract() {
        let codes = [
            (Kind::Failed, 1),
            (Kind::Cancelled, 1),
            (Kind::Usage, 2),
            (Kind::Source, 3),
            (Kind::Sample, 3),
            (Kind::Damage, 4),
            (Kind::Conflict, 10),
            (Kind::Transient, 75),
            (Kind::Interrupted(2), 130),
            (Kind::Interrupted(15), 143),
        ];
        for (kind, code) in codes {
            assert_eq!(kind.exit_code(), code, "{kind:?}");
        }
    }

    #[test]
    fn an_error_of_ours_keeps_its_kind_on_its_way_through_a_writer() {
        let outage = Error::new(Kind::Transient, "s3://b/k, part 2: no answer in time");
        let error = Error::io("data/x.tar", std::io::Error::other(outage));
        assert_eq!(error.kind(), Kind::Transient);
        assert_eq!(error.to_string(), "s3://b/k, part 2: no answer in time");
    }

    #[test]
    fn what_the_user_named_wrongly_is_told_apart_from_an_outage() {
        let named = |errno: i32| {
            let error = std::io::Error::from_raw_os_error(errno);
            Error::named(Kind::Usage, "labels.csv", error, "give a readable file")
        };
        let absent = named(2);
        assert_eq!(absent.kind(), Kind::Usage);
        assert_eq!(
            absent.to_string(),
            "labels.csv: no such file or directory: give a readable file"
        );
        let outage = named(107);
        assert_eq!(outage.kind(), Kind::Transient);
        assert_eq!(
            outage.to_string(),
            "labels.csv: transport endpoint is not connected: the mount lost its server: see that it is mounted, then run again"
        );
    }

    #[test]
    fn a_full_disk_says_how_to_go_on() {
        let error = Error::io("data/x.tar", std::io::Error::from_raw_os_error(28));
        assert_eq!(error.kind(), Kind::Failed);
        assert_eq!(
            error.to_string(),
            "data/x.tar: no space left on device: free some space and run again, finished shards are kept"
        );
    }
}
