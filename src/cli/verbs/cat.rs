//! `cat`: one sample or field to stdout, reading only its bytes and comparing them with the index.

use std::io::{self, Write};

use super::summary::Summary;
use crate::base::error::{Error, Result};
use crate::cli::settings::{Running, SamplePart};
use crate::format::RecipeLayout as _;
use crate::state::published::require;
use crate::store;
use crate::upkeep::content::{Content, pick};
use crate::upkeep::find::{Found, find};

/// Writes a part of the sample `key`, which is a key, `key.field`, or the path of a file of the source.
pub(crate) fn run(
    destination: &str,
    key: &str,
    part: SamplePart,
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
    if part == SamplePart::Whole && manifest.recipe.layout().defers() {
        return Err(Error::usage(
            "--whole: a row of Parquet lies in several columns: name a field, or read the file with a tool for Parquet",
        ));
    }
    let mut out = io::stdout().lock();
    let mut take = |piece: &[u8]| write(&mut out, piece);
    let written = match &part {
        SamplePart::Whole => content.whole(&mut take),
        SamplePart::Image => content.field(pick(&row, None)?, &mut take),
        SamplePart::Field(name) => content.field(pick(&row, Some(name))?, &mut take),
    };
    written.and(out.flush().map_err(stdout_failed))?;
    Ok(Summary {
        destination: Some(sink.to_string()),
        ..Summary::text(String::new())
    })
}

/// Writes to stdout.
fn write(out: &mut impl Write, piece: &[u8]) -> Result<()> {
    out.write_all(piece).map_err(stdout_failed)
}

fn stdout_failed(error: io::Error) -> Error {
    match error.kind() {
        // Whoever read has seen enough; what they saw cannot be judged any more.
        io::ErrorKind::BrokenPipe => Error::failed("stdout was closed before the end"),
        _ => Error::io("stdout", error),
    }
}
