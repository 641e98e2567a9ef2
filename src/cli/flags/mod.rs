//! What the user types: every flag with its help and its environment twin. No flag is judged here, see [`crate::cli::settings`].

mod choosing;
mod groups;
mod help;
mod mistakes;
mod papers;
mod values;
mod verbs;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{FromArgMatches as _, Parser, Subcommand};

pub(crate) use choosing::*;
pub(crate) use groups::*;
pub(crate) use mistakes::Typed;
pub(crate) use papers::*;
pub(crate) use values::*;
pub(crate) use verbs::*;

/// With the commit, if the build was told which: never a time, so that two builds of one commit are the same bytes.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("SHARDPACK_COMMIT").filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    }
});

/// Turn an ImageFolder tree into large WebDataset, TFRecord or Parquet shards, and prove that they are intact
#[derive(Debug, Parser)]
#[command(
    name = "shardpack",
    version = VERSION.as_str(),
    propagate_version = true,
    max_term_width = 110
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Plan, pack and publish in one process
    #[command(override_usage = "shardpack convert [OPTIONS] <SRC> <DST>")]
    Convert(ConvertArgs),
    /// List the source, fix order and shard boundaries, store the plan
    #[command(override_usage = "shardpack plan [OPTIONS] <SRC> <DST>")]
    Plan(ConvertPlanArgs),
    /// Write this worker's shards of the stored plan
    Pack(PackArgs),
    /// Check that every shard is there and commit the manifest
    Publish(PublishArgs),
    /// Re-read shards against their records; exit 4 on damage
    #[command(visible_alias = "check")]
    Verify(VerifyArgs),
    /// Make damaged or missing shards again, byte for byte
    Repair(RepairArgs),
    /// Merge small shards, which many small additions leave behind
    Compact(CompactArgs),
    /// Copy a dataset or a part of it, checked on its way
    Copy(CopyArgs),
    /// Remove what nothing needs: partial files, unused shards and plans
    Gc(GcArgs),
    /// Describe finished shards to more readers, also shards of others
    Index(IndexArgs),
    /// Make a page about a dataset, and about a run, for people
    Report(ReportArgs),
    /// Show what is in a dataset, or where one sample lies
    #[command(visible_alias = "info")]
    Inspect(InspectArgs),
    /// List samples, one a line
    Ls(LsArgs),
    /// Write one sample or field to stdout, reading only its bytes
    Cat(CatArgs),
    /// Measure how fast data can be read as files and as shards
    Bench(BenchArgs),
    /// Print what a shell needs to complete verbs and flags
    Completions(CompletionsArgs),
    /// Write pages for man(1) into a directory
    Man(ManArgs),
}

/// A page about the run and its destination that a verb is to write beside its work.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// The page's file.
    pub(crate) path: PathBuf,
    /// The dataset that it is about.
    pub(crate) destination: String,
    /// Where it was made from, if that was named.
    pub(crate) source: Option<String>,
}

impl Verb {
    /// As it is typed.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Convert(_) => "convert",
            Self::Plan(_) => "plan",
            Self::Pack(_) => "pack",
            Self::Publish(_) => "publish",
            Self::Verify(_) => "verify",
            Self::Repair(_) => "repair",
            Self::Compact(_) => "compact",
            Self::Copy(_) => "copy",
            Self::Gc(_) => "gc",
            Self::Index(_) => "index",
            Self::Report(_) => "report",
            Self::Inspect(_) => "inspect",
            Self::Ls(_) => "ls",
            Self::Cat(_) => "cat",
            Self::Bench(_) => "bench",
            Self::Completions(_) => "completions",
            Self::Man(_) => "man",
        }
    }

    /// The flags that every verb has.
    pub(crate) fn common(&self) -> &CommonArgs {
        match self {
            Self::Convert(args) => &args.common,
            Self::Plan(args) => &args.common,
            Self::Pack(args) => &args.common,
            Self::Publish(args) => &args.common,
            Self::Verify(args) => &args.common,
            Self::Repair(args) => &args.common,
            Self::Compact(args) => &args.common,
            Self::Copy(args) => &args.common,
            Self::Gc(args) => &args.common,
            Self::Index(args) => &args.common,
            Self::Report(args) => &args.common,
            Self::Inspect(args) => &args.common,
            Self::Ls(args) => &args.common,
            Self::Cat(args) => &args.common,
            Self::Bench(args) => &args.common,
            Self::Completions(args) => &args.common,
            Self::Man(args) => &args.common,
        }
    }

    /// The source that was named.
    pub(crate) fn source(&self) -> Option<&str> {
        let source = match self {
            Self::Convert(args) => Some(&args.places.source),
            Self::Plan(args) => Some(&args.places.source),
            Self::Pack(args) => args.source.as_ref(),
            Self::Verify(args) => args.source.as_ref().or(args.source_argument.as_ref()),
            Self::Repair(args) => args.source.as_ref(),
            Self::Compact(args) => args.source.as_ref(),
            Self::Report(args) => args.source.as_ref(),
            Self::Bench(args) => Some(&args.source),
            _ => None,
        };
        source
            .map(String::as_str)
            .filter(|source| !source.is_empty())
    }

    /// Whether stdout holds what was asked for: bytes, a page or a list. Nothing else is printed there then.
    pub(crate) fn fills_stdout(&self) -> bool {
        match self {
            Self::Cat(args) => args.output.as_ref().is_none_or(|path| path.is_empty()),
            Self::Report(args) => args.output == "-",
            Self::Ls(_) => true,
            _ => false,
        }
    }

    /// `--add-json` under the name it had before, which is that of another flag now: only what was typed means both.
    fn called_json(&mut self, typed: &Typed) {
        let recipe = match self {
            Self::Convert(args) => &mut args.recipe,
            Self::Plan(args) => &mut args.recipe,
            _ => return,
        };
        recipe.called_json = typed.has("json") && !recipe.add_json;
        recipe.add_json |= typed.has("json");
    }

    /// The page that is wanted beside its work.
    pub(crate) fn page(&self) -> Option<Page> {
        let (flag, destination) = match self {
            Self::Convert(args) => (&args.page, args.places.destination()),
            Self::Pack(args) => (&args.page, args.dataset.destination.as_str()),
            Self::Publish(args) => (&args.page, args.dataset.destination.as_str()),
            Self::Verify(args) => (&args.page, args.destination.as_str()),
            _ => return None,
        };
        // An empty environment twin says nothing.
        let path = flag.report.as_ref().filter(|path| !path.is_empty())?;
        Some(Page {
            path: PathBuf::from(path),
            destination: destination.to_owned(),
            source: self.source().map(str::to_owned),
        })
    }
}

/// Parses the process's arguments; what is wrong with them, and help, is printed, and the exit code given.
pub(crate) fn parse() -> Result<(Cli, Typed), u8> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let short = words.iter().any(|word| word == "-h") || words.len() == 1;
    let mut command = help::command(short);
    let parsed = command.try_get_matches_from_mut(words.clone());
    let parsed = parsed.and_then(|matches| {
        let mut cli = Cli::from_arg_matches(&matches)?;
        let typed = Typed::new(&matches, &command, &words);
        typed.check_places(&mut command)?;
        cli.verb.called_json(&typed);
        Ok((cli, typed))
    });
    parsed.map_err(|error| {
        let error = mistakes::explained(error, &command, &words);
        let _ = error.print();
        u8::try_from(error.exit_code()).unwrap_or(2)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_sound_and_each_has_its_environment_twin() {
        help::command(false).debug_assert();
        for verb in help::command(false).get_subcommands() {
            for flag in verb
                .get_arguments()
                .filter_map(|arg| Some((arg.get_long()?, arg.get_env())))
            {
                let (name, env) = flag;
                if ["help", "version"].contains(&name) {
                    continue;
                }
                let twin = format!("SHARDPACK_{}", name.to_uppercase().replace('-', "_"));
                let env = env
                    .unwrap_or_else(|| panic!("--{name} has no twin"))
                    .to_string_lossy();
                assert_eq!(env, twin, "{}", verb.get_name());
            }
        }
    }
}
