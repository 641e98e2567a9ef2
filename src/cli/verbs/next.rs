//! What comes after a verb: command lines that are ready to be pasted.

use crate::base::text::quoted;
use crate::cli::settings::Running;

/// A word of a command line that the user has to fill in.
pub(super) const SOURCE: &str = "SRC";

/// `shardpack VERB DST …` with these words behind it, which are written as they are, and with how to reach S3 if that is where one leads.
pub(super) fn command(verb: &str, destination: &str, words: &[&str], running: &Running) -> String {
    let mut line = format!("shardpack {verb} {}", quoted(destination));
    for word in words {
        line.push(' ');
        line.push_str(&match *word == SOURCE {
            true => SOURCE.to_owned(),
            false => quoted(word),
        });
    }
    if line.contains("s3://") {
        line.push_str(&running.reach);
    }
    line
}
