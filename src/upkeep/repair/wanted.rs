//! The files of the source that have what damaged shards have lost.

use std::collections::HashMap;

use crate::base::image::image_field;
use crate::model::listing::Listing;
use crate::model::record::{FieldRecord, SampleRecord, ShardRecord};
use crate::model::sample::{Field, SourcePath, sidecar_field, split_extension};
use crate::upkeep::repair::salvage::Losses;

/// Files of the source by directory and stem, of those samples that lost something.
#[derive(Default)]
pub(super) struct WantedFiles(HashMap<SourcePath, Vec<Field>>);

impl WantedFiles {
    /// Takes down what a shard needs.
    pub(super) fn add(&mut self, record: &ShardRecord, losses: &Losses) {
        for &(row, _) in &losses.fields {
            let path = &record.samples[row].source_path;
            self.0.entry(stem_of(path)).or_default();
        }
    }

    /// Whether nothing is needed.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Looks for it in the source, as that is now.
    pub(super) fn find(&mut self, listing: &Listing) {
        for dir in &listing.dirs {
            for at in 0..dir.len() {
                let path = dir.path_of(at);
                if let Some(files) = self.0.get_mut(&stem_of(&path)) {
                    let file = dir.file(at);
                    files.push(Field {
                        name: String::new(),
                        path,
                        size: file.size,
                        version: file.version(),
                        content: None,
                    });
                }
            }
        }
    }

    /// Looks for it among what tables of the source say, as they are now.
    pub(super) fn find_in_tables(&mut self, fields: Vec<Field>) {
        for field in fields {
            if let Some(files) = self.0.get_mut(&stem_of(&field.path)) {
                files.push(field);
            }
        }
    }

    /// The file of a field, or why there is none.
    pub(super) fn file(&self, row: &SampleRecord, field: &FieldRecord) -> Result<Field, String> {
        let image = is_image(row, field);
        let files = self.0.get(&stem_of(&row.source_path));
        let mut files = files.into_iter().flatten();
        let found = match image {
            true => files.find(|file| *file.path == row.source_path),
            false => files.find(|file| {
                let (_, extension) = split_extension(file.path.as_bytes());
                sidecar_field(extension).as_ref() == Some(&field.name)
            }),
        };
        let Some(found) = found else {
            return Err(match image {
                true => format!("{} is gone", row.source_path),
                false => format!("its `{}` file is gone", field.name),
            });
        };
        if found.size != field.length {
            return Err(format!(
                "{} has {} bytes, published were {}",
                found.path, found.size, field.length
            ));
        }
        Ok(Field {
            name: field.name.clone(),
            ..found.clone()
        })
    }
}

/// Whether a field is the image that the sample is named after.
pub(super) fn is_image(row: &SampleRecord, field: &FieldRecord) -> bool {
    let (_, extension) = split_extension(row.source_path.as_bytes());
    image_field(extension) == Some(field.name.as_str())
}

/// Directory and stem of a file, which the files of one sample have in common.
fn stem_of(path: &SourcePath) -> SourcePath {
    let bytes = path.as_bytes();
    let base = bytes
        .iter()
        .rposition(|&b| b == b'/')
        .map_or(0, |at| at + 1);
    let (stem, _) = split_extension(&bytes[base..]);
    SourcePath::new(&bytes[..base + stem.len()])
}
