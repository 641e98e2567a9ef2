//! What was typed, what came from the environment, and what is said of a command line that cannot be understood.

use std::env;
use std::error::Error as _;
use std::ffi::OsString;
use std::num::ParseIntError;
use std::os::unix::ffi::OsStrExt as _;

use clap::ArgMatches;
use clap::builder::{Command, StyledStr};
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::parser::ValueSource;

use crate::base::text::quoted;

/// What other tools call the number of things that are done at once.
const AT_ONCE: &[&str] = &[
    "--threads",
    "--num-threads",
    "--num-workers",
    "--workers",
    "--processes",
    "--parallel",
    "--concurrency",
    "--cores",
];
/// What other tools call the place where something goes.
const PLACES: &[&str] = &[
    "--output",
    "--out",
    "--output-dir",
    "--output-folder",
    "--dst",
    "--dest",
    "--destination",
];

/// Flags of other tools, and how the same is said here: the first of a verb that has all the flags it speaks of.
const FLAGS: [(&[&str], &str); 20] = [
    (
        AT_ONCE,
        "`-j N` (`--jobs N`) is how many shards are made at once, `--reads N` how many files are read at once",
    ),
    (
        AT_ONCE,
        "`--concurrency 1,8,32` is how many readers there are at once, one number after the other",
    ),
    (
        &["--force", "--overwrite", "--rebuild", "--clobber"],
        "nothing that is published is written over: `--full` makes all shards anew beside what is there, `--on-change rebuild` those whose samples changed",
    ),
    (
        &["--resume", "--continue", "--restart"],
        "nothing to say: the same command again goes on where the last run ended",
    ),
    (
        &[
            "--resize",
            "--image-size",
            "--size",
            "--resolution",
            "--crop",
            "--quality",
        ],
        "images are packed byte for byte as they are: resize them before, or in the training job's loader",
    ),
    (
        &[
            "--maxsize",
            "--max-size",
            "--max-shard-size",
            "--chunk-size",
        ],
        "`--shard-size SIZE` is the largest that a shard may be, 1GB where nobody says",
    ),
    (
        &[
            "--maxcount",
            "--max-count",
            "--samples-per-shard",
            "--number-sample-per-shard",
            "--count",
        ],
        "`--shard-samples N` is the most samples in a shard",
    ),
    (
        &["--num-shards", "--nshards"],
        "`--shards N` is the number of shards of each split",
    ),
    (PLACES, "the destination is the last argument, or `-o DST`"),
    (
        PLACES,
        "places are arguments without a flag: `shardpack help VERB` has their order",
    ),
    (
        &["--input", "--src", "--input-dir", "--data-dir", "--root"],
        "the source is the first argument",
    ),
    (
        &["--shuffle"],
        "samples are shuffled unless you say `--order listed`; `--seed N` gives another order",
    ),
    (
        &["--no-shuffle", "--sorted"],
        "`--order listed` keeps the order of the source",
    ),
    (
        &["--extensions", "--ext", "--pattern", "--glob"],
        "`--include GLOB` takes only what matches",
    ),
    (
        &[
            "--ignore-errors",
            "--skip-errors",
            "--keep-going",
            "--continue-on-error",
            "--skip",
        ],
        "`--on-error skip` leaves damaged samples out and lists them",
    ),
    (
        &["--silent"],
        "`-q` prints errors only, `--progress none` no progress",
    ),
    (&["--debug"], "`-v` prints more"),
    (
        &["--dryrun", "--simulate"],
        "`-n` (`--dry-run`) prints what would be done",
    ),
    (
        &["--codec", "--compression", "--gzip", "--zstd"],
        "`--compress zstd` or `--compress gzip` compresses shards; JPEG gains next to nothing",
    ),
    (
        &["--aws-profile"],
        "`--profile NAME` is the profile in the AWS configuration files",
    ),
];

/// Verbs of other tools, and those here.
const VERBS: [(&[&str], &str); 6] = [
    (&["list", "dir", "find"], "ls"),
    (&["show", "stat", "stats", "describe"], "inspect"),
    (&["validate", "test", "fsck", "checksum"], "verify"),
    (&["fix", "heal"], "repair"),
    (&["create", "build", "make", "write", "run"], "convert"),
    (&["clean", "prune", "vacuum"], "gc"),
];

/// A flag without a value, as its environment twin says it; an empty twin says nothing.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "yes" | "true" | "on" => Ok(true),
        "" | "0" | "no" | "false" | "off" => Ok(false),
        _ => Err("write 1, yes or true, or 0, no or false".to_owned()),
    }
}

/// Where the values of flags came from.
#[derive(Debug, Default)]
pub(crate) struct Typed {
    /// Names of arguments on the command line.
    typed: Vec<String>,
    /// Flags that were set by the environment, and by which variable.
    variables: Vec<(String, String)>,
    /// The command line without `--dry-run` and what goes with it, as a shell takes it, if that was on it.
    pub(crate) for_real: Option<String>,
}

impl Typed {
    pub(super) fn new(matches: &ArgMatches, command: &Command, words: &[OsString]) -> Self {
        let mut found = Self {
            for_real: for_real(words),
            ..Self::default()
        };
        let Some((verb, matches)) = matches.subcommand() else {
            return found;
        };
        for id in matches.ids() {
            let arg = command
                .find_subcommand(verb)
                .and_then(|verb| verb.get_arguments().find(|arg| arg.get_id() == id));
            let Some(arg) = arg else { continue };
            match (
                matches.value_source(id.as_str()),
                arg.get_long(),
                arg.get_env(),
            ) {
                (Some(ValueSource::CommandLine), ..) => found.typed.push(id.to_string()),
                (Some(ValueSource::EnvVariable), Some(long), Some(env)) => {
                    let variable = env.to_string_lossy().into_owned();
                    found.variables.push((format!("--{long}"), variable));
                }
                _ => {}
            }
        }
        found
    }

    /// Whether an argument of this name was on the command line.
    pub(super) fn has(&self, id: &str) -> bool {
        self.typed.iter().any(|typed| typed == id)
    }

    /// DST is said once.
    pub(super) fn check_places(&self, command: &mut Command) -> Result<(), Error> {
        match self.has("destination") && self.has("into") {
            false => Ok(()),
            true => Err(command.error(
                ErrorKind::ArgumentConflict,
                "the destination is given twice, as DST and as `-o`: drop one of them",
            )),
        }
    }

    /// What of the flags that a message is about came from the environment, for its end.
    pub(crate) fn origin(&self, message: &str) -> String {
        let is_named = |flag: &str| {
            message.match_indices(flag).any(|(at, _)| {
                let next = message[at + flag.len()..].chars().next();
                !next.is_some_and(|c| c.is_ascii_alphanumeric() || c == '-')
            })
        };
        let named = self.variables.iter().filter(|(flag, _)| is_named(flag));
        let lines = named
            .map(|(flag, variable)| format!("\n  {flag} is set by the environment: {variable}"));
        lines.collect()
    }
}

/// A command line without its `--dry-run`.
fn for_real(words: &[OsString]) -> Option<String> {
    let is_dry = |word: &OsString| word == "-n" || word == "--dry-run";
    if !words.iter().any(is_dry) {
        return None;
    }
    let mut rest = Vec::new();
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        match text.split_once('=').map_or(&*text, |(flag, _)| flag) {
            "--probe" | "--price" if text.contains('=') => {}
            "--probe" | "--price" => _ = words.next(),
            _ if is_dry(word) => {}
            _ => rest.push(word),
        }
    }
    let line = rest
        .into_iter()
        .map(|word| format!(" {}", quoted(word.as_bytes())));
    Some(line.fold("shardpack".to_owned(), |line, word| line + &word))
}

/// The same error, in words that help: what came from the environment is named after its variable, and flags of other tools after ours.
pub(super) fn explained(mut error: Error, command: &Command, words: &[OsString]) -> Error {
    let text = |error: &Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let flag = text(&error, ContextKind::InvalidArg);
            let flag = flag.as_deref().and_then(|flag| flag.split('=').next());
            let verb = verb_of(command, words);
            let fits = |tip: &str| verb.is_none_or(|verb| has_all(verb, tip));
            let known = flag.and_then(|flag| {
                let mut known = FLAGS.iter().filter(|(names, _)| names.contains(&flag));
                known.find(|(_, tip)| fits(tip))
            });
            if let Some((_, tip)) = known {
                error.remove(ContextKind::SuggestedArg);
                error.remove(ContextKind::Usage);
                tell(&mut error, tip);
            }
        }
        ErrorKind::InvalidSubcommand => {
            let verb = text(&error, ContextKind::InvalidSubcommand);
            let verb = verb.as_deref();
            let known = verb.and_then(|verb| VERBS.iter().find(|(names, _)| names.contains(&verb)));
            if let Some((_, ours)) = known {
                error.insert(
                    ContextKind::SuggestedSubcommand,
                    ContextValue::String((*ours).to_owned()),
                );
            }
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            if error
                .source()
                .is_some_and(|source| source.is::<ParseIntError>())
            {
                tell(&mut error, "give a whole number, as 8");
            }
            let flag = text(&error, ContextKind::InvalidArg).unwrap_or_default();
            let long = flag.split([' ', '=']).next().unwrap_or_default();
            if let Some(variable) = variable_of(long, command, words) {
                error.insert(ContextKind::InvalidArg, ContextValue::String(variable));
            }
        }
        _ => {}
    }
    error
}

/// The variable that a flag's value came from, if it was not typed.
fn variable_of(long: &str, command: &Command, words: &[OsString]) -> Option<String> {
    let verb = verb_of(command, words)?;
    let name = long.strip_prefix("--")?;
    let mut flags = verb.get_arguments();
    let flag = flags.find(|flag| flag.get_long() == Some(name))?;
    let variable = flag.get_env()?;
    let is_typed = |word: &OsString| {
        let word = word.to_string_lossy();
        let is_short = |short| word.starts_with('-') && word.chars().nth(1) == Some(short);
        word.split('=').next() == Some(long) || flag.get_short().is_some_and(is_short)
    };
    let is_set = env::var_os(variable).is_some_and(|value| !value.is_empty());
    (is_set && !words.iter().any(is_typed)).then(|| variable.to_string_lossy().into_owned())
}

/// The verb of a command line.
fn verb_of<'c>(command: &'c Command, words: &[OsString]) -> Option<&'c Command> {
    let mut verbs = command.get_subcommands();
    verbs.find(|verb| words.iter().any(|word| is_called(verb, word)))
}

/// Whether a verb has all the flags that are quoted in a text, and they do something there.
fn has_all(verb: &Command, text: &str) -> bool {
    let quoted = text.split('`').skip(1).step_by(2);
    let mut flags = quoted.filter_map(|quoted| quoted.split(' ').next());
    flags.all(|flag| {
        let is_it = |arg: &clap::Arg| match flag.strip_prefix("--") {
            Some(long) => arg.get_long() == Some(long),
            None => arg.get_short() == flag.chars().nth(1),
        };
        let mut args = verb.get_arguments().filter(|arg| !arg.is_hide_set());
        !flag.starts_with('-') || args.any(is_it)
    })
}

/// Whether this word is the verb, or another name of it.
fn is_called(verb: &Command, word: &OsString) -> bool {
    verb.get_name_and_visible_aliases()
        .into_iter()
        .any(|name| *word == *name)
}

fn tell(error: &mut Error, tip: &str) {
    let tip = StyledStr::from(tip.to_owned());
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yes_and_no_are_written_in_many_ways() {
        for text in ["1", "yes", "TRUE", "on"] {
            assert_eq!(boolean(text), Ok(true), "{text}");
        }
        for text in ["0", "no", "False", "off", ""] {
            assert_eq!(boolean(text), Ok(false), "{text}");
        }
        assert!(boolean("2").is_err());
    }

    #[test]
    fn a_message_says_which_of_its_flags_the_environment_set() {
        let typed = Typed {
            typed: Vec::new(),
            for_real: None,
            variables: vec![
                ("--shards".to_owned(), "SHARDPACK_SHARDS".to_owned()),
                ("--shard-size".to_owned(), "SHARDPACK_SHARD_SIZE".to_owned()),
            ],
        };
        let said = typed.origin("--shards 0: give at least 1");
        assert!(
            said.contains("SHARDPACK_SHARDS") && !said.contains("SIZE"),
            "{said}"
        );
        assert_eq!(typed.origin("--shards-of-others is no flag"), "");
    }
}
