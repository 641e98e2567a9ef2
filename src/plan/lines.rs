//! The list of samples of a shard: one JSON object a line.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::base::error::{Error, Kind, Result};
use crate::base::text::hex;
use crate::model::sample::{Field, Sample, SourcePath};
use crate::plan::value::ShardPlan;

/// Makes `line` the value's JSON and a newline.
pub(super) fn set_line(line: &mut Vec<u8>, value: &impl Serialize) -> serde_json::Result<()> {
    line.clear();
    serde_json::to_writer(&mut *line, value)?;
    line.push(b'\n');
    Ok(())
}

/// What the line of a sample has, but for the versions of its files.
fn unversioned(sample: &Sample) -> impl Serialize {
    #[derive(Serialize)]
    struct Unversioned<'a> {
        key: &'a str,
        label: Option<u32>,
        fields: Vec<File<'a>>,
    }
    #[derive(Serialize)]
    struct File<'a> {
        name: &'a str,
        path: &'a SourcePath,
        size: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<&'a str>,
    }
    // Taken apart by name: what is added to a sample or a field must be added here, or left out on purpose.
    let Sample { key, label, fields } = sample;
    let files = fields.iter().map(|field| {
        let Field {
            name,
            path,
            size,
            version: _,
            content,
        } = field;
        File {
            name,
            path,
            size: *size,
            content: content.as_deref(),
        }
    });
    Unversioned {
        key,
        label: *label,
        fields: files.collect(),
    }
}

/// Enters into the plan of a shard what its samples come to.
pub(super) fn sum_up(shard: &mut ShardPlan, samples: impl Iterator<Item = Sample>) {
    let (mut listing, mut digest) = (Sha256::new(), Sha256::new());
    let mut line = Vec::new();
    for sample in samples {
        // Strings and numbers always serialise.
        let _ = set_line(&mut line, &sample);
        listing.update(&line);
        shard.listing_bytes += line.len() as u64;
        let _ = set_line(&mut line, &unversioned(&sample));
        digest.update(&line);
        shard.source_bytes += sample.fields.iter().map(|field| field.size).sum::<u64>();
    }
    shard.listing = hex(&listing.finalize());
    shard.unversioned = hex(&digest.finalize());
}

/// The lines of these samples, as they are listed in the plan of a shard.
pub(crate) fn lines_of(samples: &[Sample]) -> Vec<u8> {
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    for sample in samples {
        // Strings and numbers always serialise.
        let _ = set_line(&mut line, sample);
        lines.extend_from_slice(&line);
    }
    lines
}

/// The sample in a line of a shard's list.
pub(crate) fn parse_line(name: &str, line: &[u8]) -> Result<Sample> {
    let sample: Result<Sample, _> = serde_json::from_slice(line);
    let mut sample = sample.map_err(|error| {
        Error::new(
            Kind::Damage,
            format!(
                "{name}: the plan's list of samples cannot be read: {error}: make the plan again"
            ),
        )
    })?;
    // Grown one by one, it has room for four, which would be most of a sample's memory.
    sample.fields.shrink_to_fit();
    Ok(sample)
}
