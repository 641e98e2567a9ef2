//! Which fields of a dataset were read from files, and where in a shard their contents lie.

use crate::model::extent::{Extent, Method};
use crate::model::manifest::Manifest;
use crate::model::recipe::{Compression, Format};
use crate::model::record::FieldRecord;

/// How the shards of a dataset hold the contents of files.
pub(super) struct Contents {
    /// Fields that were made when the shards were.
    made: &'static [&'static str],
    method: Method,
}

impl Contents {
    /// Those of this dataset.
    pub(super) fn of(manifest: &Manifest) -> Self {
        let recipe = &manifest.recipe;
        let made: &[&str] = match (recipe.format, recipe.json) {
            (Format::WebDataset, true) => &["cls", "json"],
            (Format::WebDataset, false) => &["cls"],
            (Format::TfRecord | Format::Parquet, _) => &[],
        };
        let method = match recipe.compress {
            Compression::None => Method::Stored,
            Compression::Gzip { .. } => Method::Gzip,
            Compression::Zstd { .. } => Method::Zstd,
        };
        Self { made, method }
    }

    /// Whether a field of this name was made from what is known of the sample, and is made again.
    pub(super) fn is_made(&self, field: &str) -> bool {
        self.made.contains(&field)
    }

    /// Where in its shard the content of a field lies.
    pub(super) fn extent(&self, field: &FieldRecord) -> Extent {
        Extent {
            offset: field.offset,
            bytes: field.length,
            method: self.method,
            crc32: Some(field.crc32),
        }
    }
}
