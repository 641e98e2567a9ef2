//! NVIDIA DALI: where each sample lies, one text file a shard, beside it.
//!
//! Sources: DALI `tools/wds2idx.py` (v1.2) and `tools/tfrecord2idx`. Fields are separated by blanks, which no key has.

use std::fmt::Write;

use super::{Exporter, File, stem};
use crate::error::Result;
use crate::manifest::ShardEntry;
use crate::recipe::{Compression, Format, Recipe};
use crate::record::ShardRecord;

pub(super) struct Dali;

impl Exporter for Dali {
    fn check(&self, recipe: &Recipe) -> Result<(), String> {
        match (recipe.format, recipe.compress) {
            (Format::WebDataset | Format::TfRecord, Compression::None) => Ok(()),
            (Format::WebDataset | Format::TfRecord, _) => Err(
                "a DALI index points into the shard itself: drop `--compress` or drop `--index dali`".to_owned(),
            ),
            _ => Err("DALI reads WebDataset tar and TFRecord: use one of these or drop `--index dali`".to_owned()),
        }
    }

    fn shard(&self, shard: &ShardEntry, record: &ShardRecord) -> Result<Vec<File>> {
        let text = match shard.name.ends_with(".tar") {
            true => members(record),
            false => records(record),
        };
        Ok(vec![(
            format!("{}.idx", stem(&shard.name)),
            text.into_bytes(),
        )])
    }
}

/// Offset and length of each record, framing included.
pub(super) fn records(record: &ShardRecord) -> String {
    let mut text = String::new();
    for row in &record.samples {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} {}", row.offset, row.length);
    }
    text
}

fn members(record: &ShardRecord) -> String {
    let mut text = format!("v1.2 {}\n", record.samples.len());
    for row in &record.samples {
        for (number, field) in row.fields.iter().enumerate() {
            let blank = if number > 0 { " " } else { "" };
            let _ = write!(
                text,
                "{blank}{name} {offset} {length} {key}.{name}",
                name = field.name,
                offset = field.offset,
                length = field.length,
                key = row.key
            );
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::vector;

    #[test]
    fn the_published_index_comes_out_byte_for_byte() {
        let (entry, record) = vector();
        let files = Dali.shard(&entry, &record).unwrap();
        let expected = "v1.2 2\ncls 512 1 000000.cls jpg 1536 600 000000.jpg\ncls 3072 1 000001.cls jpg 4096 513 000001.jpg\n";
        assert_eq!(
            files,
            [(
                "data/train-00000.idx".to_owned(),
                expected.as_bytes().to_vec()
            )]
        );
    }

    #[test]
    fn records_are_lines_of_offset_and_length() {
        let (mut entry, record) = vector();
        entry.name = "data/train-00000.tfrecord".to_owned();
        let files = Dali.shard(&entry, &record).unwrap();
        assert_eq!(files[0].1, b"0 2560\n2560 2560\n");
    }
}
