//! What help shows: `-h` the flags that people use and three examples, `--help` all that does something in that verb.

use clap::builder::{Arg, ArgAction, Command};
use clap::{CommandFactory as _, builder::ValueParser};

use super::Cli;
use super::mistakes::boolean;

const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  failed
    2  usage: the command line is wrong
    3  source problems, nothing published
    4  verification found damage
   10  another writer won
   75  transient, run me again
  130  interrupted (SIGINT), 143 terminated (SIGTERM)

Every flag --some-name has an environment twin SHARDPACK_SOME_NAME; the flag wins.
Flags that do nothing in a verb are taken there too, so that one environment does for all, and not shown.";

const EXAMPLES: &str = "\
Examples:
  shardpack convert images shards             # an ImageFolder to ~1 GB shards
  shardpack verify shards                     # every byte as it was written?
  shardpack cat shards cat/001 -o 001.jpg     # one sample of it

`shardpack VERB -h` has its usual flags, `shardpack help VERB` all of them.";

/// What `-h` shows of a verb.
struct Usual {
    verb: &'static str,
    /// Ten flags at most, besides those for help.
    flags: &'static [&'static str],
    /// Three lines.
    examples: &'static str,
}

const USUAL: [Usual; 17] = [
    Usual {
        verb: "convert",
        flags: &[
            "format",
            "shard_size",
            "index",
            "split",
            "labels",
            "exclude",
            "on_error",
            "report",
            "jobs",
            "dry_run",
        ],
        examples: "\
shardpack convert images shards --dry-run      # what it would come to
  shardpack convert imagenet s3://bucket/shards  # to S3, in parallel
  shardpack convert images shards --index wids,dali --report run.html",
    },
    Usual {
        verb: "plan",
        flags: &[
            "format",
            "shard_size",
            "index",
            "split",
            "labels",
            "exclude",
            "on_error",
            "out_workers",
            "workers",
            "dry_run",
        ],
        examples: "\
shardpack plan images shards                   # and then pack, publish
  shardpack plan s3://bucket/images s3://bucket/shards --shard-size 512MB
  shardpack plan images shards --workers 8 --out-workers workers.txt",
    },
    Usual {
        verb: "pack",
        flags: &[
            "source",
            "worker",
            "workers",
            "publish_when_complete",
            "on_error",
            "report",
            "jobs",
            "reads",
            "memory",
            "progress",
        ],
        examples: "\
shardpack pack shards                          # all that is not packed yet
  shardpack pack shards --worker 0/4             # the first quarter
  shardpack pack shards --workers 4 --publish-when-complete",
    },
    Usual {
        verb: "publish",
        flags: &[
            "out_digest",
            "report",
            "replace",
            "memory",
            "summary",
            "json",
            "log",
            "progress",
            "quiet",
            "verbose",
        ],
        examples: "\
shardpack publish shards                       # when all is packed
  shardpack publish s3://bucket/shards --out-digest digest.txt
  shardpack publish shards --report run.html",
    },
    Usual {
        verb: "verify",
        flags: &[
            "level",
            "source",
            "sample",
            "max_duration",
            "resume",
            "report",
            "json",
            "jobs",
            "memory",
            "progress",
        ],
        examples: "\
shardpack verify shards                        # every byte of every shard
  shardpack verify s3://bucket/shards --level head   # no download
  shardpack verify shards images --level source  # and against the images",
    },
    Usual {
        verb: "repair",
        flags: &[
            "source", "dry_run", "jobs", "reads", "memory", "json", "summary", "progress", "quiet",
            "verbose",
        ],
        examples: "\
shardpack repair shards --dry-run              # what is damaged or gone
  shardpack repair shards --source images        # made again, the same bytes
  shardpack repair s3://bucket/shards --source s3://bucket/images",
    },
    Usual {
        verb: "compact",
        flags: &[
            "source",
            "labels",
            "on_error",
            "max_skipped",
            "dry_run",
            "jobs",
            "reads",
            "memory",
            "json",
            "progress",
        ],
        examples: "\
shardpack compact shards --source images --dry-run
  shardpack compact shards --source images       # small shards become large
  shardpack gc shards --keep 1                   # and the small ones go",
    },
    Usual {
        verb: "copy",
        flags: &[
            "split",
            "shards",
            "class",
            "shard_size",
            "dry_run",
            "jobs",
            "memory",
            "json",
            "progress",
            "endpoint_url",
        ],
        examples: "\
shardpack copy s3://bucket/shards /nvme/shards
  shardpack copy s3://bucket/shards /nvme/shards --shards 0/8
  shardpack copy s3://bucket/small s3://bucket/large --shard-size 1GB",
    },
    Usual {
        verb: "gc",
        flags: &[
            "older_than",
            "keep",
            "dry_run",
            "json",
            "summary",
            "log",
            "quiet",
            "verbose",
            "endpoint_url",
            "profile",
        ],
        examples: "\
shardpack gc shards --dry-run                  # what would go
  shardpack gc shards --keep 1                   # earlier snapshots go too
  shardpack gc s3://bucket/shards --older-than 7d",
    },
    Usual {
        verb: "index",
        flags: &[
            "index", "replace", "jobs", "memory", "json", "summary", "progress", "log", "quiet",
            "verbose",
        ],
        examples: "\
shardpack index shards --index wids            # for one reader more
  shardpack index shards --index dali,energon
  shardpack index others                         # a manifest for tars of others",
    },
    Usual {
        verb: "report",
        flags: &[
            "output", "run", "source", "jobs", "memory", "json", "summary", "log", "quiet",
            "profile",
        ],
        examples: "\
shardpack report shards                        # to report.html
  shardpack report shards -o - > page.html
  shardpack report shards --run summary.json     # of a run too",
    },
    Usual {
        verb: "inspect",
        flags: &[
            "duplicates",
            "json",
            "memory",
            "summary",
            "log",
            "quiet",
            "verbose",
            "endpoint_url",
            "region",
            "profile",
        ],
        examples: "\
shardpack inspect shards                       # splits, shards, classes
  shardpack inspect shards cat/001               # where one sample lies
  shardpack inspect s3://bucket/shards --json",
    },
    Usual {
        verb: "ls",
        flags: &[
            "json",
            "limit",
            "reads",
            "memory",
            "summary",
            "log",
            "quiet",
            "verbose",
            "endpoint_url",
            "profile",
        ],
        examples: "\
shardpack ls shards                            # all, one a line
  shardpack ls shards 'cat/0*' --limit 10
  shardpack ls s3://bucket/shards --json | jq .key",
    },
    Usual {
        verb: "cat",
        flags: &[
            "field",
            "whole",
            "output",
            "reads",
            "memory",
            "log",
            "quiet",
            "verbose",
            "endpoint_url",
            "profile",
        ],
        examples: "\
shardpack cat shards cat/001 -o 001.jpg        # the image
  shardpack cat shards cat/001.cls               # its label
  shardpack cat s3://bucket/shards cat/001 --whole | tar x",
    },
    Usual {
        verb: "bench",
        flags: &[
            "shards",
            "scratch",
            "seconds",
            "concurrency",
            "target",
            "decode",
            "cold",
            "gpu_batch",
            "max_bytes",
            "report",
        ],
        examples: "\
shardpack bench images --decode                # is storage what limits you?
  shardpack bench s3://bucket/images --gpu-batch 256 --report bench.html
  shardpack bench /data/images --shards s3://bucket/shards --seconds 3",
    },
    Usual {
        verb: "completions",
        flags: &[],
        examples: "\
shardpack completions bash > ~/.local/share/bash-completion/completions/shardpack
  shardpack completions zsh > ~/.zfunc/_shardpack
  shardpack completions fish > ~/.config/fish/completions/shardpack.fish",
    },
    Usual {
        verb: "man",
        flags: &[],
        examples: "\
shardpack man ~/.local/share/man/man1          # and then: man shardpack
  shardpack man man/man1
  sudo shardpack man /usr/local/share/man/man1",
    },
];

/// Verbs that touch no dataset: flags that all others take do nothing there.
const PAPERS: [&str; 2] = ["completions", "man"];

/// Verbs in which flags that all of them take do something; elsewhere they are not shown.
const ACT: [(&[&str], &[&str]); 7] = [
    (
        &["jobs"],
        &[
            "convert", "pack", "verify", "repair", "compact", "copy", "index", "report",
        ],
    ),
    (
        &["progress"],
        &[
            "convert", "plan", "pack", "publish", "verify", "repair", "compact", "copy", "index",
            "bench",
        ],
    ),
    (&["problems"], &["convert", "plan", "pack", "compact"]),
    // `verify` writes where it ended, and a bucket may take no object without these.
    (
        &["sse", "sse_kms_key_id", "tagging"],
        &[
            "convert", "plan", "pack", "publish", "verify", "repair", "compact", "copy", "index",
            "bench",
        ],
    ),
    (
        &["unsafe_no_conditional_put"],
        &[
            "convert", "plan", "pack", "publish", "repair", "compact", "copy", "index", "bench",
        ],
    ),
    (
        &["no_fsync"],
        &[
            "convert", "plan", "pack", "publish", "repair", "compact", "copy", "index",
        ],
    ),
    (
        &["storage_class"],
        &["convert", "pack", "repair", "compact", "copy"],
    ),
];

/// The command line as it is parsed, for help of one kind: short, or all.
pub(super) fn command(short: bool) -> Command {
    let command = Cli::command().mut_subcommands(|verb| {
        let name = verb.get_name().to_owned();
        let usual = USUAL.iter().find(|usual| usual.verb == name);
        let examples = usual.map_or("", |usual| usual.examples);
        let flags = usual.map_or(&[][..], |usual| usual.flags);
        let verb = verb
            .after_help(format!(
                "Examples:\n  {examples}\n\n`shardpack help {name}` has all flags and the exit codes."
            ))
            .after_long_help(format!("Examples:\n  {examples}\n\n{EXIT_CODES}"))
            .mut_args(|arg| shown(arg, &name, flags, short));
        match short {
            true => briefly(verb),
            false => verb,
        }
    });
    command
        .after_help(EXAMPLES)
        .after_long_help(format!("{EXAMPLES}\n\n{EXIT_CODES}"))
}

/// Without lines about help and version: how to get more is said at the end.
fn briefly(verb: Command) -> Command {
    let help = Arg::new("help").short('h').long("help");
    verb.disable_version_flag(true)
        .disable_help_flag(true)
        .arg(help.action(ArgAction::Help).hide(true))
}

fn shown(arg: Arg, verb: &str, usual: &[&str], short: bool) -> Arg {
    let id = arg.get_id().as_str().to_owned();
    let acts = |(flags, verbs): &(&[&str], &[&str])| {
        !flags.contains(&id.as_str()) || verbs.contains(&verb)
    };
    let old = id == "json" && matches!(verb, "convert" | "plan");
    let dead = old || PAPERS.contains(&verb) && !arg.is_positional() || !ACT.iter().all(acts);
    let unusual = !arg.is_positional() && !usual.contains(&id.as_str());
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let mut arg = arg;
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        arg = arg.value_parser(ValueParser::new(boolean));
    }
    let hidden = dead || arg.is_hide_set();
    arg.hide(hidden)
        .hide_short_help(unusual)
        .hide_env(short)
        .hide_possible_values(short && takes_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_ten_usual_flags_that_it_shows_and_three_examples() {
        for verb in command(true).get_subcommands() {
            let name = verb.get_name();
            let usual = USUAL.iter().find(|usual| usual.verb == name);
            let usual = usual.unwrap_or_else(|| panic!("{name}"));
            assert!(usual.flags.len() <= 10, "{name}");
            assert_eq!(usual.examples.lines().count(), 3, "{name}");
            for flag in usual.flags {
                let arg = verb.get_arguments().find(|arg| arg.get_id() == flag);
                let arg = arg.unwrap_or_else(|| panic!("{name} has no {flag}"));
                assert!(!arg.is_hide_set(), "{name} {flag}");
            }
        }
    }

    #[test]
    fn what_is_said_of_flags_is_said_of_flags_and_verbs_that_there_are() {
        let command = command(false);
        let verb = |name: &str| {
            command
                .find_subcommand(name)
                .unwrap_or_else(|| panic!("{name}"))
        };
        for (flags, verbs) in ACT {
            for verb in verbs.iter().map(|name| verb(name)) {
                for flag in flags {
                    assert!(
                        verb.get_arguments().any(|arg| arg.get_id() == flag),
                        "{flag}"
                    );
                }
            }
        }
    }
}
