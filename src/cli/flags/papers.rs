//! What is made of the command line's description for others to show: completions of a shell, and pages for `man`.

use std::ffi::OsString;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::base::error::{Error, Result};
use crate::cli::flags::{CommonArgs, help};

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: Shell,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Where the pages go, as share/man/man1
    #[arg(value_name = "DIR")]
    pub(crate) directory: OsString,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// What this shell reads to complete the program's verbs and flags.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut help::command(false), "shardpack", &mut text);
    text
}

/// Pages for `man`: the program's and one for each verb, each with the name of its file.
pub(crate) fn manual() -> Result<Vec<(String, Vec<u8>)>> {
    let mut program = help::command(false).disable_help_subcommand(true);
    // Names the verbs as they are typed, and hands down what all of them have.
    program.build();
    let verbs = program.get_subcommands().filter(|verb| !verb.is_hide_set());
    [&program].into_iter().chain(verbs).map(page).collect()
}

fn page(command: &Command) -> Result<(String, Vec<u8>)> {
    let man = Man::new(command.clone());
    let mut text = Vec::new();
    man.render(&mut text)
        .map_err(|error| Error::failed(error.to_string()))?;
    Ok((man.get_filename(), text))
}
