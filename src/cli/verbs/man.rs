//! `man`: a page for `man` of the program and of each verb, into a directory.

use std::path::Path;

use crate::base::error::Result;
use crate::base::units::counted;
use crate::cli::file;
use crate::cli::flags::{ManArgs, manual};
use crate::cli::verbs::summary::Summary;

/// Writes the pages.
pub(crate) fn run(args: &ManArgs) -> Result<Summary> {
    let directory = Path::new(&args.directory);
    let pages = manual()?;
    for (name, text) in &pages {
        file::write("man", &directory.join(name), text)?;
    }
    let pages = counted(pages.len() as u64, "page");
    Ok(Summary::text(format!(
        "{pages} in {}\n",
        directory.display()
    )))
}
