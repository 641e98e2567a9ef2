//! `cat`: one sample or field to stdout, reading only its bytes and comparing them with the index.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use super::summary::Summary;
use crate::base::error::{Error, Result};
use crate::base::text::quoted;
use crate::base::units::bytes_text;
use crate::cli::file;
use crate::cli::settings::{Running, SamplePart};
use crate::format::RecipeLayout as _;
use crate::state::published::require;
use crate::store;
use crate::upkeep::content::{Content, pick};
use crate::upkeep::find::{Found, find};

/// Writes a part of the sample `key`, which is a key, `key.field`, or the path of a file of the source, to a file or to stdout.
pub(crate) fn run(
    destination: &str,
    key: &str,
    part: SamplePart,
    output: Option<&Path>,
    running: &Running,
) -> Result<Summary> {
    let sink = store::sink(destination, &running.access)?;
    let manifest = require(sink.as_ref())?;
    let found = find(sink.as_ref(), &manifest, key, &running.effort())?;
    let Found { shard, row, field } = found;
    let part = match (field, part) {
        (Some(field), SamplePart::Image) => SamplePart::Field(field),
        (_, part) => part,
    };
    let content = Content {
        sink: sink.as_ref(),
        compress: manifest.recipe.compress,
        shard,
        row: &row,
    };
    let field = match &part {
        SamplePart::Whole if manifest.recipe.layout().defers() => {
            return Err(Error::usage(
                "--whole: a row of Parquet lies in several columns: name a field, or read the file with a tool for Parquet",
            ));
        }
        SamplePart::Whole => None,
        SamplePart::Image => Some(pick(&row, None)?),
        SamplePart::Field(name) => Some(pick(&row, Some(name))?),
    };
    let write = |out: &mut dyn Write, failed: fn(io::Error) -> Error| {
        let mut take = |piece: &[u8]| out.write_all(piece).map_err(failed);
        match field {
            None => content.whole(&mut take),
            Some(field) => content.field(field, &mut take),
        }
    };
    let text = match output {
        Some(path) => {
            let failed = |error| Error::io("--output", error);
            file::write_by("--output", path, |out| {
                write(out, failed).map_err(io::Error::other)
            })?;
            let length = field.map_or(row.length, |field| field.length);
            format!(
                "{} of {}, {}\n",
                bytes_text(length),
                row.key,
                path.display()
            )
        }
        None => {
            if io::stdout().is_terminal() && !is_text(field.map(|field| field.name.as_str())) {
                return Err(Error::usage(format!(
                    "stdout is a terminal, which bytes of an image would garble: add `-o FILE`, or `| COMMAND`; `shardpack inspect {} {}` says what is in it",
                    quoted(destination),
                    quoted(&row.key)
                )));
            }
            let mut out = io::stdout().lock();
            let written = write(&mut out, stdout_failed);
            written.and(out.flush().map_err(stdout_failed))?;
            String::new()
        }
    };
    Ok(Summary {
        destination: Some(sink.to_string()),
        ..Summary::text(text)
    })
}

/// Whether a field of this name is text that a terminal shows.
fn is_text(field: Option<&str>) -> bool {
    let last = field.map(|name| name.rsplit(['.', '/']).next().unwrap_or(name));
    matches!(
        last,
        Some(
            "cls"
                | "json"
                | "txt"
                | "caption"
                | "text"
                | "label"
                | "class"
                | "file_name"
                | "filename"
        )
    )
}

fn stdout_failed(error: io::Error) -> Error {
    match error.kind() {
        // Whoever read has seen enough; what they saw cannot be judged any more.
        io::ErrorKind::BrokenPipe => Error::failed("stdout was closed before the end"),
        _ => Error::io("stdout", error),
    }
}
