//! Which fields of a dataset were read from files, and where in a shard their contents lie.

use crate::model::extent::{Extent, Method};
use crate::model::manifest::Manifest;
use crate::model::recipe::{Compression, Format};
use crate::model::record::{FieldRecord, SampleRecord, ShardRecord};
use crate::store::unpacks_in_memory;

/// How the shards of a dataset hold the contents of files.
pub(super) struct Contents {
    /// Fields that were made when the shards were.
    made: &'static [&'static str],
    compress: Compression,
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
        Self {
            made,
            compress: recipe.compress,
        }
    }

    /// Whether a field of this name was made from what is known of the sample, and is made again.
    pub(super) fn is_made(&self, field: &str) -> bool {
        self.made.contains(&field)
    }

    /// Where in its shard the content of a field of a sample lies.
    pub(super) fn extent(
        &self,
        shard: &ShardRecord,
        row: &SampleRecord,
        field: &FieldRecord,
    ) -> Extent {
        let held = unpacks_in_memory(shard.bytes, shard.unpacked_bytes());
        let (method, held_method) = match self.compress {
            Compression::None => (Method::Stored, Method::Stored),
            Compression::Gzip { .. } => (Method::GzipStream, Method::Gzip),
            Compression::Zstd { .. } => (Method::ZstdStream, Method::Zstd),
        };
        let crc32 = Some(field.crc32);
        // Frames are there for those who want a part.
        if let (Some(frame), Some(skip)) = (row.frame, skip_in(row, field)) {
            return Extent {
                offset: frame.offset,
                bytes: frame.length,
                method: Method::Frames { skip },
                crc32,
            };
        }
        Extent {
            offset: field.offset,
            bytes: field.length,
            method: if held { held_method } else { method },
            crc32,
        }
    }
}

/// Where in what its frames unpack to the content of a field begins.
fn skip_in(row: &SampleRecord, field: &FieldRecord) -> Option<u64> {
    field.offset.checked_sub(row.frame?.start)
}
