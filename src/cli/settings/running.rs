//! How to run: the checked form of what every verb has.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::base::error::{Error, Result};
use crate::base::signal::Stop;
use crate::base::text::quoted;
use crate::cli::flags as cli;
use crate::format::RecipeLayout as _;
use crate::format::compress::CompressionCost as _;
use crate::model::counters::Counters;
use crate::model::history::Setup;
use crate::model::problems::Problems;
use crate::plan::budget::{Budget, Overhead, balanced_jobs, default_memory, divide};
use crate::plan::value::Plan;
use crate::publish::layout::layout;
use crate::store::{Access, S3Options, Sink, Source};
use crate::upkeep::find::Effort;

/// The command line of this process as a shell takes it, with the variables of ours before it. Nothing of it is a secret but a password in
/// an address, which is left out.
pub(crate) fn command_line() -> String {
    let text = |word: &OsStr| word.to_string_lossy().into_owned();
    let ours = std::env::vars_os().filter(|(name, _)| text(name).starts_with("SHARDPACK_"));
    let mut ours: Vec<String> = ours
        .map(|(name, value)| {
            format!(
                "{}={}",
                text(&name),
                quoted(without_password(&text(&value)))
            )
        })
        .collect();
    ours.sort();
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| quoted(without_password(&text(&word))));
    let all: Vec<String> = ours
        .into_iter()
        .chain(["shardpack".to_owned()])
        .chain(words)
        .collect();
    all.join(" ")
}

/// An address without the name and password before its host.
fn without_password(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else {
        return word.to_owned();
    };
    let host = rest.split('/').next().unwrap_or_default();
    match host.rsplit_once('@') {
        Some((secret, _)) => format!("{scheme}://…{}", &rest[secret.len()..]),
        None => word.to_owned(),
    }
}

/// How to run, for every verb.
#[derive(Clone)]
pub(crate) struct Running {
    /// Shards at once, if the user said how many.
    pub jobs: Option<usize>,
    /// Cores to keep busy: those there are, fewer when fewer shards at once were asked for.
    pub cores: usize,
    /// Memory to stay within.
    pub memory: u64,
    /// How to reach locations.
    pub access: Access,
    /// Counts what happens.
    pub counters: Arc<Counters>,
    /// Says when to stop.
    pub stop: Stop,
    /// Takes all that is at fault, however much it is.
    pub problems: Problems,
    /// Whether files of somebody else may be replaced that lie where reader indexes are to be.
    pub replace: bool,
    /// The flags that S3 was reached with, each after a blank, for command lines that are shown.
    pub(crate) reach: String,
    /// The command line of a dry run without its flag.
    pub(crate) for_real: Option<String>,
}

/// How much to do at once and where, as the user said it.
pub(crate) struct Limits {
    pub(crate) jobs: Option<usize>,
    pub(crate) reads: Option<usize>,
    /// In bytes.
    pub(crate) memory: Option<u64>,
    pub(crate) fsync: bool,
    pub(crate) s3: S3Options,
}

impl Running {
    /// How to run within these limits.
    pub(crate) fn new(limits: Limits, counters: &Arc<Counters>, stop: &Stop) -> Result<Self> {
        let positive = |flag: &str, value: usize| match value {
            0 => Err(Error::usage(format!("{flag} 0: give at least 1"))),
            value => Ok(value),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // Half of the open files are left to everything else.
        let open_files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let memory = limits.memory.unwrap_or_else(default_memory);
        Ok(Self {
            jobs: limits.jobs,
            cores: cores.min(positive("--jobs", limits.jobs.unwrap_or(cores))?),
            replace: false,
            reach: String::new(),
            for_real: None,
            memory,
            access: Access {
                reads: limits.reads.map(|n| positive("--reads", n)).transpose()?,
                open_files: open_files.map_or(usize::MAX, |limit| (limit / 2).max(1) as usize),
                memory,
                fsync: limits.fsync,
                s3: limits.s3,
                layout: layout(),
                counters: Arc::clone(counters),
                stop: stop.clone(),
                ..Access::default()
            },
            counters: Arc::clone(counters),
            stop: stop.clone(),
            problems: Problems::default(),
        })
    }

    /// The same, with files of somebody else replaced or not.
    pub(crate) fn replacing(&self, args: &cli::ReplaceArgs) -> Self {
        Self {
            replace: args.replace,
            ..self.clone()
        }
    }

    /// Shards at once, for this many shards.
    pub(crate) fn jobs_for(&self, shards: usize) -> usize {
        self.jobs
            .unwrap_or_else(|| balanced_jobs(self.cores, shards))
    }

    /// How to look for a sample.
    pub(crate) fn effort(&self) -> Effort<'_> {
        Effort {
            reads: self.access.reads,
            memory: self.memory,
            stop: &self.stop,
        }
    }

    /// What a summary says of this.
    pub(crate) fn setup(&self) -> Setup {
        Setup {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cores: self.cores,
            jobs: self.jobs,
            reads: self.access.reads,
            memory_bytes: self.memory,
            fsync: self.access.fsync,
            command: None,
            source: None,
        }
    }

    /// What each packer of this plan may hold, from this source to this sink.
    pub(crate) fn budget(
        &self,
        plan: &Plan,
        source: &dyn Source,
        sink: &dyn Sink,
    ) -> Result<Budget> {
        let jobs = self.jobs_for(plan.shards.len());
        let overhead = Overhead {
            reads: source.reads(),
            bytes: source.overhead_bytes() + sink.writing_bytes(),
            window_bytes: source.window_bytes(),
            job_bytes: plan.recipe.compress.memory_bytes()
                + plan.recipe.layout().memory_bytes(&plan.names),
        };
        divide(self.memory, jobs, overhead, plan)
    }
}

/// Where a summary goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SummaryPlace {
    /// Stdout, in place of the lines for people.
    Stdout,
    /// A file.
    File(PathBuf),
}

/// Where the summary goes, if one is wanted; an empty environment twin says nothing.
pub(crate) fn summary(args: &cli::CommonArgs) -> Option<SummaryPlace> {
    let place = args.summary.as_ref().filter(|path| !path.is_empty())?;
    Some(match place == "-" {
        true => SummaryPlace::Stdout,
        false => SummaryPlace::File(PathBuf::from(place)),
    })
}

/// Stdout is filled by one thing.
pub(crate) fn check_stdout(verb: &cli::Verb) -> Result<()> {
    match verb.fills_stdout() && summary(verb.common()) == Some(SummaryPlace::Stdout) {
        false => Ok(()),
        true => Err(Error::usage(format!(
            "--summary -: stdout is for what `{}` writes: name a file",
            verb.name()
        ))),
    }
}

/// Checks how to run.
pub(crate) fn running(
    args: &cli::CommonArgs,
    counters: &Arc<Counters>,
    stop: &Stop,
) -> Result<Running> {
    let limits = Limits {
        jobs: args.jobs,
        reads: args.reads,
        memory: args.memory,
        fsync: !args.no_fsync,
        s3: s3(&args.s3)?,
    };
    Ok(Running {
        problems: match args.problems.as_ref().filter(|path| !path.is_empty()) {
            Some(path) => Problems::create(Path::new(path))?,
            None => Problems::default(),
        },
        reach: reach(&args.s3),
        ..Running::new(limits, counters, stop)?
    })
}

/// The flags by which S3 is reached, as a shell takes them.
fn reach(args: &cli::S3Args) -> String {
    let valued = [
        ("--endpoint-url", &args.endpoint_url),
        ("--region", &args.region),
        ("--profile", &args.profile),
        ("--request-payer", &args.request_payer),
    ];
    let mut line = String::new();
    for (flag, value) in valued {
        // A URL may hold a password.
        let shown = |value: &&String| !value.is_empty() && !value.contains('@');
        if let Some(value) = value.as_ref().filter(shown) {
            line.push_str(&format!(" {flag} {}", quoted(value)));
        }
    }
    if args.no_sign_request {
        line.push_str(" --no-sign-request");
    }
    line.push_str(match args.addressing {
        cli::Addressing::Auto => "",
        cli::Addressing::Path => " --addressing path",
        cli::Addressing::Host => " --addressing host",
    });
    line
}

/// Checks what is said about S3.
fn s3(args: &cli::S3Args) -> Result<S3Options> {
    // An empty environment twin says nothing.
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if args.sse_kms_key_id.is_some()
        && !args
            .sse
            .as_deref()
            .is_some_and(|sse| sse.starts_with("aws:kms"))
    {
        return Err(Error::usage(
            "--sse-kms-key-id names the key of `--sse aws:kms`: add that",
        ));
    }
    let timeout = args.request_timeout;
    if timeout == 0 {
        return Err(Error::usage("--request-timeout 0: give at least 1 second"));
    }
    Ok(S3Options {
        endpoint_url: given(&args.endpoint_url),
        region: given(&args.region),
        profile: given(&args.profile),
        no_sign_request: args.no_sign_request,
        request_payer: args.request_payer.is_some(),
        storage_class: given(&args.storage_class),
        sse: given(&args.sse),
        sse_kms_key_id: given(&args.sse_kms_key_id),
        tagging: given(&args.tagging),
        path_style: match args.addressing {
            cli::Addressing::Auto => None,
            cli::Addressing::Path => Some(true),
            cli::Addressing::Host => Some(false),
        },
        no_conditional_put: args.unsafe_no_conditional_put,
        request_timeout: std::time::Duration::from_secs(timeout),
        retry_for: std::time::Duration::from_secs(args.retry_for),
    })
}

/// When the workflow that this run is a step of will end it; `variable` gives the environment.
pub(crate) fn deadline(variable: impl Fn(&str) -> Option<String>) -> Option<SystemTime> {
    let text = variable("ARGO_DEADLINE").filter(|text| !text.is_empty())?;
    match OffsetDateTime::parse(&text, &Rfc3339) {
        // Argo's way of saying that there is none: the year 1.
        Ok(time) if time < OffsetDateTime::UNIX_EPOCH => None,
        Ok(time) => Some(time.into()),
        Err(error) => {
            tracing::warn!(
                "`ARGO_DEADLINE` is `{text}`, no time as of RFC 3339: {error}; going on without"
            );
            None
        }
    }
}

/// This moment as of RFC 3339, in UTC and whole seconds; empty if the clock is beyond such times.
pub(crate) fn now() -> String {
    let now = OffsetDateTime::now_utc().replace_nanosecond(0);
    now.ok()
        .and_then(|now| now.format(&Rfc3339).ok())
        .unwrap_or_default()
}

/// Where a scheduler wants to read how far this run is.
pub(crate) fn progress_file() -> Option<PathBuf> {
    let path = std::env::var_os("ARGO_PROGRESS_FILE").filter(|path| !path.is_empty());
    path.map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_an_address_is_not_kept() {
        for (word, kept) in [
            ("http://me:secret@host:9000/x@y", "http://…@host:9000/x@y"),
            ("https://host/a@b", "https://host/a@b"),
            ("s3://bucket/images", "s3://bucket/images"),
            ("a@b", "a@b"),
        ] {
            assert_eq!(without_password(word), kept);
        }
    }
}
