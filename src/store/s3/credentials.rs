//! Whose credentials are used, and how they are kept.
//!
//! What gives credentials out fails now and then: a throttled token service, a metadata service that restarts, a program that
//! meets an outage of its own. So new ones are asked for well before the old ones end, by one request at a time; the old ones
//! serve as long as they are good, and what fails after that is told apart from what only a person can mend.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use aws_config::profile::{ProfileSet, load};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};
use aws_types::os_shim_internal::{Env, Fs};

use crate::base::error::{Error, Result};
use crate::store::s3::message::{chain, short};

/// New credentials are asked for so long before the old ones end, or in the last quarter of their life.
const EARLY: Duration = Duration::from_secs(300);
/// Longest time of one attempt to fetch them.
const LOAD: Duration = Duration::from_secs(60);
/// First and longest time after a failure in which nobody asks again.
const AGAIN: std::ops::Range<Duration> = Duration::from_secs(1)..Duration::from_secs(5);
/// Profiles that a message names.
const NAMED: usize = 20;

/// Credentials that could not be had, and whether they may be had later.
#[derive(Clone, Debug)]
pub(super) struct Unavailable {
    /// Nothing is configured, or what is asked says no: asking again does not help.
    pub(super) lasting: bool,
    /// Why, in one line.
    pub(super) reason: String,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl StdError for Unavailable {}

/// Gives out the credentials of one source and has them fetched again in time; clones share them.
#[derive(Clone)]
pub(super) struct CredentialsCache(Arc<SharedCredentials>);

struct SharedCredentials {
    source: Box<dyn ProvideCredentials>,
    /// How to say that it has none.
    none: String,
    state: Mutex<State>,
    /// Held by whoever asks the source: hundreds of requests ask once.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    credentials: Option<Credentials>,
    /// When they were fetched.
    fetched: Option<Instant>,
    /// When the source is asked again; never, where nothing is said.
    next: Option<Instant>,
    /// Failures since it last gave any.
    failures: u32,
    failed: Option<Unavailable>,
}

impl State {
    /// The credentials while they have not ended.
    fn good(&self) -> Option<&Credentials> {
        let lasts = |c: &&Credentials| c.expiry().is_none_or(|end| end > SystemTime::now());
        self.credentials.as_ref().filter(lasts)
    }

    /// What can be answered without asking the source.
    fn known(&self) -> Option<Result<Credentials, Unavailable>> {
        let due = match (&self.credentials, &self.failed) {
            (None, None) => true,
            _ => self.next.is_some_and(|next| next <= Instant::now()),
        };
        if due {
            return None;
        }
        match (self.good(), &self.failed, &self.credentials) {
            (Some(good), ..) => Some(Ok(good.clone())),
            (None, Some(failed), _) => Some(Err(failed.clone())),
            // They came with an end that has passed: the server is to judge whose clock is wrong.
            (None, None, Some(ended)) => Some(Ok(ended.clone())),
            (None, None, None) => None,
        }
    }
}

impl fmt::Debug for CredentialsCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialsCache")
    }
}

impl ProvideCredentials for CredentialsCache {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async {
            let credentials = self.credentials().await;
            credentials.map_err(CredentialsError::provider_error)
        })
    }
}

impl CredentialsCache {
    /// `none` says, in a message, that this source has no credentials.
    pub(super) fn new(source: impl ProvideCredentials + 'static, none: impl Into<String>) -> Self {
        Self(Arc::new(SharedCredentials {
            source: Box::new(source),
            none: none.into(),
            state: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there are credentials, or it is known that there are none.
    pub(super) async fn ready(&self) -> Result<(), Unavailable> {
        self.credentials().await.map(|_| ())
    }

    /// The credentials to sign with, asked for where there are none.
    pub(super) async fn credentials(&self) -> Result<Credentials, Unavailable> {
        let known = {
            let mut state = self.state();
            let known = state.known();
            match state.good().cloned() {
                // Due, but good for a while: one request has them fetched, none waits.
                Some(good) if known.is_none() => {
                    state.next = Some(Instant::now() + AGAIN.end);
                    drop(state);
                    let keeper = self.clone();
                    tokio::spawn(async move { keeper.fetch(true).await });
                    Some(Ok(good))
                }
                _ => known,
            }
        };
        if let Some(known) = known {
            return known;
        }
        // A task of its own: a request that is given up must not end what others wait for.
        let keeper = self.clone();
        let fetched = tokio::spawn(async move { keeper.fetch(false).await });
        fetched.await.unwrap_or_else(|ended| {
            Err(Unavailable {
                lasting: false,
                reason: ended.to_string(),
            })
        })
    }

    /// Asks the source, unless somebody else did while this one waited for its turn.
    async fn fetch(&self, early: bool) -> Result<Credentials, Unavailable> {
        let _turn = self.0.turn.lock().await;
        if !early && let Some(known) = self.state().known() {
            return known;
        }
        let asked = tokio::time::timeout(LOAD, self.0.source.provide_credentials()).await;
        let answer = asked.unwrap_or_else(|_| Err(CredentialsError::provider_timed_out(LOAD)));
        let now = Instant::now();
        let mut state = self.state();
        match answer {
            Ok(credentials) => {
                let left = credentials
                    .expiry()
                    .map(|end| end.duration_since(SystemTime::now()).unwrap_or_default());
                *state = State {
                    credentials: Some(credentials.clone()),
                    fetched: Some(now),
                    next: left.map(|left| now + until_renewal(left)),
                    ..State::default()
                };
                Ok(credentials)
            }
            Err(error) => {
                let unavailable = unavailable(&error, state.fetched.is_some(), &self.0.none);
                tracing::debug!(reason = unavailable.reason, "credentials were not fetched");
                let wait = (AGAIN.start * 2u32.pow(state.failures.min(10))).min(AGAIN.end);
                state.failures += 1;
                state.next = (!unavailable.lasting).then_some(now + wait);
                state.failed = Some(unavailable.clone());
                state.good().cloned().ok_or(unavailable)
            }
        }
    }

    /// The server says that the credentials have ended: fetches others for the next request, where there can be any.
    pub(super) fn renew(&self) -> bool {
        let mut state = self.state();
        let refreshed = state
            .credentials
            .as_ref()
            .is_some_and(|c| c.expiry().is_some());
        // Of hundreds of requests that failed together only the first throws them away.
        if refreshed && state.fetched.is_some_and(|at| at.elapsed() > AGAIN.start) {
            *state = State {
                fetched: state.fetched,
                ..State::default()
            };
        }
        refreshed
    }
}

/// How long to wait before others are fetched for credentials that are good for `left`.
fn until_renewal(left: Duration) -> Duration {
    (left - (left / 4).min(EARLY)).max(AGAIN.start)
}

/// What came of asking. `before` tells that the same source gave credentials earlier in this run.
fn unavailable(error: &CredentialsError, before: bool, none_said: &str) -> Unavailable {
    let texts = chain(error);
    let text = texts.join(": ");
    // The library shows whole answers of a metadata service.
    let texts = texts
        .iter()
        .map(|t| t.split(". Response {").next().unwrap_or(t));
    let texts: Vec<_> = texts.collect();
    let none = matches!(error, CredentialsError::CredentialsNotLoaded(_));
    let lasting = match deepest(error) {
        _ if is_refusal(&text) => true,
        // What was configured a moment ago still is.
        _ if before => false,
        CredentialsError::InvalidConfiguration(_) => true,
        // Named by the profile as where to take them from, and out of reach.
        CredentialsError::CredentialsNotLoaded(_) => none || !text.contains("IMDS"),
        _ => false,
    };
    let reason = match none {
        true => none_said.to_owned(),
        // The outermost only says that it is about credentials.
        false => short(&texts[texts.len().saturating_sub(2)..].join(": ")),
    };
    Unavailable { lasting, reason }
}

/// The innermost error about credentials: a profile's provider wraps those of what it names.
fn deepest(error: &CredentialsError) -> &CredentialsError {
    let mut found = error;
    let mut next = error.source();
    while let Some(error) = next {
        found = error.downcast_ref().unwrap_or(found);
        next = error.source();
    }
    found
}

/// Whether who was asked says no and will say so again, by the words of its answer: the client library keeps no more of it.
fn is_refusal(text: &str) -> bool {
    // Codes of the token service and of single sign-on; a login that has ended; a program or a token that is not there; whom
    // nobody trusts.
    const WORDS: [&str; 22] = [
        "accessdenied",
        "expiredtoken",
        "forbidden",
        "idprejectedclaim",
        "invalidclienttokenid",
        "invalidgrant",
        "invalididentitytoken",
        "malformedpolicydocument",
        "missingauthenticationtoken",
        "optinrequired",
        "packedpolicytoolarge",
        "regiondisabled",
        "resourcenotfound",
        "signaturedoesnotmatch",
        "unauthorized",
        "unrecognizedclient",
        "validationerror",
        "token has expired",
        "cached sso token",
        "invalid peer certificate",
        "proxy authorization required",
        "no such file or directory",
    ];
    let lower = text.to_lowercase();
    let status = |before: &str| -> Option<u16> {
        let (_, rest) = lower.split_once(before)?;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    };
    let refused = |status| (400..500).contains(&status) && ![408, 429].contains(&status);
    WORDS.iter().any(|word| lower.contains(word))
        || status("statuscode(").is_some_and(refused)
        || status("(code: ").is_some_and(refused)
        // The shell's: cannot be run, is not there.
        || matches!(status("exit status: "), Some(126 | 127))
}

/// The AWS configuration files, and which profile of theirs is meant.
pub(super) struct Profiles(Option<ProfileSet>);

impl Profiles {
    /// Reads the files. A profile that somebody named and that is not there is an error: what it would have said, the account
    /// above all, must not be guessed.
    pub(super) async fn load(flag: Option<&str>) -> Result<Self> {
        let variable = environment("AWS_PROFILE");
        let (what, named) = match (flag, variable.as_deref()) {
            (Some(name), _) => ("--profile", Some(name)),
            // What holds where nothing is said.
            (None, Some("default") | None) => ("", None),
            (None, name) => ("AWS_PROFILE", name),
        };
        let meant = Cow::Owned(named.unwrap_or("default").to_owned());
        let files = &Default::default();
        let set = load(&Fs::real(), &Env::real(), files, Some(meant)).await;
        let Some(name) = named else {
            return Ok(Self(set.ok()));
        };
        let set = set.map_err(|error| {
            let texts = chain(&error).join(": ");
            Error::usage(format!("{what} {name}: {}: mend the file", short(&texts)))
        })?;
        if set.get_profile(name).is_none() {
            return Err(unknown(what, name, &set));
        }
        Ok(Self(Some(set)))
    }

    /// A setting of the profile.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.as_ref()?.get(key).filter(|value| !value.is_empty())
    }
}

fn unknown(what: &str, name: &str, set: &ProfileSet) -> Error {
    let home = std::env::var("HOME").unwrap_or_else(|_| "~".to_owned());
    let file = |variable, default| {
        environment(variable).unwrap_or_else(|| format!("{home}/.aws/{default}"))
    };
    let config = file("AWS_CONFIG_FILE", "config");
    let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
    let mut names: Vec<_> = set.profiles().map(|name| format!("`{name}`")).collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let remedy = match (names.is_empty(), more) {
        (true, _) => "there are none: write it there, or name other files in AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE".to_owned(),
        (_, 0) => format!("choose one of {}", names.join(", ")),
        _ => format!("choose one of {} and {more} more", names.join(", ")),
    };
    Error::usage(format!(
        "{what} {name}: there is no such profile in {config} or {credentials}: {remedy}"
    ))
}

/// An environment variable that says something.
pub(super) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Gives what it is told to, a moment later, and counts how often it is asked.
    #[derive(Debug)]
    struct Source {
        asked: Arc<AtomicUsize>,
        answers: fn(usize) -> Result<Credentials, CredentialsError>,
    }

    impl ProvideCredentials for Source {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            future::ProvideCredentials::new(async {
                let before = self.asked.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(20)).await;
                (self.answers)(before)
            })
        }
    }

    /// What a hundred requests at the same time get, twice, and how often the source was asked.
    fn hundreds(
        answers: fn(usize) -> Result<Credentials, CredentialsError>,
    ) -> (Vec<Result<Credentials, Unavailable>>, usize) {
        let asked = Arc::new(AtomicUsize::new(0));
        let source = Source {
            asked: Arc::clone(&asked),
            answers,
        };
        let keeper = CredentialsCache::new(source, "none");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let mut all = Vec::new();
        for _ in 0..2 {
            let start = |_| {
                let keeper = keeper.clone();
                runtime.spawn(async move { keeper.credentials().await })
            };
            let tasks: Vec<_> = (0..100).map(start).collect();
            for task in tasks {
                all.push(runtime.block_on(task).unwrap());
            }
        }
        (all, asked.load(Ordering::SeqCst))
    }

    fn key(lasts: Option<Duration>) -> Credentials {
        let end = lasts.map(|lasts| SystemTime::now() + lasts);
        Credentials::new("key", "secret", None, end, "test")
    }

    #[test]
    fn hundreds_of_requests_ask_once() {
        for answers in [
            (|_| Ok(key(None))) as fn(usize) -> _,
            |_| Ok(key(Some(Duration::from_secs(3600)))),
            // One that has ended already is the server's to judge.
            |_| Ok(key(Some(Duration::ZERO))),
        ] {
            let (all, asked) = hundreds(answers);
            assert!(all.iter().all(Result::is_ok));
            assert_eq!(asked, 1);
        }
    }

    #[test]
    fn a_failure_is_every_waiting_requests_and_asked_about_once() {
        let (all, asked) = hundreds(|_| Err(CredentialsError::provider_error("status 503")));
        assert!(
            all.iter()
                .all(|one| one.as_ref().is_err_and(|e| !e.lasting))
        );
        assert_eq!(asked, 1);
        let (all, asked) = hundreds(|_| Err(CredentialsError::not_loaded_no_source()));
        assert!(
            all.iter()
                .all(|one| one.as_ref().is_err_and(|e| e.lasting && e.reason == "none"))
        );
        assert_eq!(asked, 1);
    }

    #[test]
    fn others_are_fetched_while_the_old_are_good() {
        for (left, wait) in [(3600, 3300), (900, 675), (16, 12), (1, 1), (0, 1)] {
            let wait = Duration::from_secs(wait);
            assert_eq!(until_renewal(Duration::from_secs(left)), wait);
        }
    }

    #[test]
    fn who_says_no_is_told_from_who_is_in_trouble() {
        for text in [
            "service error: unhandled error (AccessDenied): AccessDenied",
            "Non-success status from HTTP credential provider: StatusCode(403)",
            "error response from IMDS (code: 404)",
            "external process exited with code exit status: 127. Stderr: sh: x: not found",
            "the SSO token has expired and cannot be refreshed",
        ] {
            assert!(is_refusal(text), "{text}");
        }
        for text in [
            "Non-success status from HTTP credential provider: StatusCode(429)",
            "Non-success status from HTTP credential provider: StatusCode(503)",
            "error response from IMDS (code: 500)",
            "external process exited with code exit status: 1. Stderr: boom",
            "dispatch failure: io error: connection refused",
            "service error: unhandled error (Throttling)",
        ] {
            assert!(!is_refusal(text), "{text}");
        }
        let error = CredentialsError::provider_error("StatusCode(503)");
        assert!(!unavailable(&error, false, "").lasting);
        let gone = CredentialsError::not_loaded("could not communicate with IMDS");
        assert!(
            unavailable(&gone, false, "").lasting,
            "this machine has none"
        );
        assert!(!unavailable(&gone, true, "").lasting, "it had a moment ago");
    }
}
