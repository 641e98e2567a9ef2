//! NVIDIA DALI: where each sample lies, one text file a shard, beside it.
//!
//! Sources: DALI `tools/wds2idx.py` (v1.2) and `tools/tfrecord2idx`. Fields are separated by blanks, which no key has.

use std::fmt::Write;

use crate::model::recipe::{Compression, Format, Recipe};
use crate::model::record::ShardRecord;
use crate::publish::readers::exporter::Exporter;
use crate::publish::readers::paths::stem;

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

    fn shard_file(&self, shard: &str) -> Option<String> {
        Some(format!("{}.idx", stem(shard)))
    }

    fn shard(&self, record: &ShardRecord) -> Vec<u8> {
        match record.shard.ends_with(".tar") {
            true => members(record).into_bytes(),
            false => records(record).into_bytes(),
        }
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
    use crate::publish::readers::exporter::vector;

    #[test]
    fn the_published_index_comes_out_byte_for_byte() {
        let (entry, record) = vector();
        let expected = "v1.2 2\ncls 512 1 000000.cls jpg 1536 600 000000.jpg\ncls 3072 1 000001.cls jpg 4096 513 000001.jpg\n";
        let name = Dali.shard_file(&entry.name);
        assert_eq!(name.as_deref(), Some("data/train-00000.idx"));
        assert_eq!(Dali.shard(&record), expected.as_bytes());
    }

    #[test]
    fn records_are_lines_of_offset_and_length() {
        let (_, mut record) = vector();
        record.shard = "data/train-00000.tfrecord".to_owned();
        assert_eq!(Dali.shard(&record), b"0 2560\n2560 2560\n");
    }
}
