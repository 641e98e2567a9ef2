//! The `tfrecord` package of PyPI: offset and length of each record, `*.tfindex` beside `*.tfrecord`.
//!
//! Source: tfrecord 1.14.6 `tfrecord/tools/tfrecord2idx.py`. Its reader cannot load an index of a single line.

use crate::model::recipe::{Compression, Format, Recipe};
use crate::model::record::ShardRecord;
use crate::publish::readers::dali::records;
use crate::publish::readers::exporter::Exporter;
use crate::publish::readers::paths::stem;

pub(super) struct TfIndex;

impl Exporter for TfIndex {
    fn check(&self, recipe: &Recipe) -> Result<(), String> {
        match (recipe.format, recipe.compress) {
            (Format::TfRecord, Compression::None) => Ok(()),
            (Format::TfRecord, _) => Err(
                "it points into the shard itself: drop `--compress` or drop this index".to_owned(),
            ),
            _ => {
                Err("it describes TFRecords: use `--format tfrecord` or drop this index".to_owned())
            }
        }
    }

    fn shard_file(&self, shard: &str) -> Option<String> {
        Some(format!("{}.tfindex", stem(shard)))
    }

    fn shard(&self, record: &ShardRecord) -> Vec<u8> {
        records(record).into_bytes()
    }
}
