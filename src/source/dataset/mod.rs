//! A published dataset as a source: its manifest and its indexes say which samples there are and where each of their fields lies.
//!
//! In comes a store that holds a manifest; out goes a catalogue, a listing whose files are ranges of shards, with the split and class of each
//! directory. No shard is opened for it. What a layout makes from the class is left out, so that what is made of the catalogue is what was made of
//! the images themselves.

mod contents;
mod rows;
mod scan;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::base::checksum::crc_text;
use crate::base::error::{Error, Kind, Result};
use crate::base::text::hex;
use crate::base::units::counted;
use crate::model::listing::{Dir, Listing};
use crate::model::manifest::{MANIFEST, MANIFEST_KIND, Manifest, ShardEntry};
use crate::model::recipe::Arrangement;
use crate::model::record::ShardRecord;
use crate::model::sample::{Archive, FilePath};
use crate::model::selection::Derivation;
use crate::source::samples::is_image;
use crate::store::{Source, at_once, whole};

use contents::Contents;
pub(super) use scan::scan_dataset;

/// Indexes that are held at once.
const INDEXES_AT_ONCE: usize = 16;

/// A published dataset that is read.
pub(super) struct Published {
    pub(super) manifest: Manifest,
    /// SHA-256 of the manifest.
    digest: String,
}

/// Which split and class the files of a directory are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Belongs {
    pub(super) split: u16,
    pub(super) label: u32,
}

/// The samples of a published dataset.
pub(crate) struct Catalogue {
    /// Their files. Several directories may have one path: each is of one split and class.
    listing: Listing,
    /// For each directory of the listing, what it is of.
    belongs: Vec<Belongs>,
    /// Fields of foreign shards that no file could be named after.
    nameless: u64,
    of: Published,
}

/// What is in a source.
pub(crate) enum Listed {
    /// Files, which a layout makes samples of.
    Files(Listing),
    /// Samples, which a published dataset says.
    Samples(Box<Catalogue>),
}

impl Listed {
    /// The files, whatever they are.
    pub(crate) fn into_listing(self) -> Listing {
        match self {
            Listed::Files(listing) => listing,
            Listed::Samples(catalogue) => catalogue.listing,
        }
    }
}

/// What is in a source that the user says is arranged so, if anybody says. `files` lists one that is no dataset.
pub(crate) fn list(
    source: &dyn Source,
    layout: Option<Arrangement>,
    files: impl FnOnce() -> Result<Listing>,
) -> Result<Listed> {
    Ok(match find(source, layout)? {
        Some(published) => Listed::Samples(Box::new(published.catalogue(source)?)),
        None => Listed::Files(files()?),
    })
}

/// The dataset that a source is; `None` if it is none, or the user says that it is arranged otherwise.
fn find(source: &dyn Source, layout: Option<Arrangement>) -> Result<Option<Published>> {
    let is_wanted = layout == Some(Arrangement::Dataset);
    if layout.is_some() && !is_wanted {
        return Ok(None);
    }
    let Some(text) = read(source, MANIFEST)? else {
        return match is_wanted {
            false => Ok(None),
            true => Err(Error::source_data(format!(
                "{source} has no {MANIFEST}: it is no published dataset; give the directory of one, or its images with another `--layout`"
            ))),
        };
    };
    // Datasets of others have files of this name too.
    let is_ours = |text: &[u8]| {
        let kind = MANIFEST_KIND.as_bytes();
        text.windows(kind.len()).any(|some| some == kind)
    };
    if !is_wanted && !is_ours(&text) {
        return Ok(None);
    }
    let manifest = Manifest::decode(&format!("{source}/{MANIFEST}"), &text)?;
    Ok(Some(Published {
        manifest,
        digest: hex(&Sha256::digest(&text)),
    }))
}

/// The content of a file; `None` if there is none of this name.
fn read(source: &dyn Source, name: &str) -> Result<Option<Bytes>> {
    let path = FilePath::below(b"", name.as_bytes());
    Ok(whole(source, path, u64::MAX)?.map(Bytes::from))
}

impl Published {
    /// What says of another dataset that it was made from this state of this one.
    pub(super) fn derivation(&self) -> Derivation {
        Derivation {
            name: self.manifest.name.clone(),
            manifest: self.digest.clone(),
            selection: String::new(),
            copied: false,
        }
    }

    /// Its samples, by its indexes. Shards are looked at, not read.
    ///
    /// # Errors
    ///
    /// [`Kind::Damage`] where an index is not what the manifest says, or a shard is gone or has another length.
    fn catalogue(self, source: &dyn Source) -> Result<Catalogue> {
        let splits = self.manifest.splits.iter().enumerate();
        let shards: Vec<(u16, &ShardEntry)> = splits
            .flat_map(|(number, split)| split.shards.iter().map(move |s| (number as u16, s)))
            .collect();
        let depth = source.reads().clamp(1, INDEXES_AT_ONCE);
        let archives = at_once(depth, &shards, |(_, shard)| archive(source, shard))?;
        let archives: Arc<[Arc<Archive>]> = archives.into_iter().map(Arc::new).collect();
        let mut gathered = Gathered::new(archives, &self.manifest);
        for (number, some) in shards.chunks(INDEXES_AT_ONCE).enumerate() {
            let records = at_once(depth, some, |(_, shard)| record(source, shard))?;
            for (at, (record, (split, _))) in records.into_iter().zip(some).enumerate() {
                gathered.add(number * INDEXES_AT_ONCE + at, *split, &record)?;
            }
        }
        for dir in &mut gathered.dirs {
            dir.shrink();
        }
        Ok(Catalogue {
            listing: Listing {
                dirs: gathered.dirs,
                ..Listing::default()
            },
            belongs: gathered.belongs,
            nameless: gathered.nameless,
            of: self,
        })
    }

    /// What it is, for people.
    pub(super) fn said(&self) -> String {
        let manifest = &self.manifest;
        let made = match manifest.recipe.foreign {
            true => ", indexed shards of somebody else",
            false => "",
        };
        format!(
            "published dataset `{}`{made}: {} in {}",
            manifest.name,
            counted(manifest.samples, "sample"),
            counted(manifest.shards().count() as u64, "shard"),
        )
    }
}

/// An error of a dataset that is not what its manifest says.
fn damaged(source: &dyn Source, what: &str) -> Error {
    Error::new(
        Kind::Damage,
        format!(
            "{source}/{what}: run again if it was published anew meanwhile, and else `shardpack verify` there"
        ),
    )
}

/// A shard as a file that others lie in.
fn archive(source: &dyn Source, shard: &ShardEntry) -> Result<Archive> {
    let path = FilePath::below(b"", shard.name.as_bytes());
    let Some((bytes, version)) = source.look(&path)? else {
        return Err(damaged(source, &format!("{}: missing", shard.name)));
    };
    if bytes != shard.bytes {
        let what = format!(
            "{}: {bytes} bytes, the manifest says {}",
            shard.name, shard.bytes
        );
        return Err(damaged(source, &what));
    }
    Ok(Archive {
        listed_at: Some(path),
        prefix_bytes: 0,
        bytes,
        version,
    })
}

/// What the index of a shard says.
fn record(source: &dyn Source, shard: &ShardEntry) -> Result<ShardRecord> {
    let Some(file) = read(source, &shard.index)? else {
        return Err(damaged(source, &format!("{}: missing", shard.index)));
    };
    let crc32 = crc_text(crc32fast::hash(&file));
    if crc32 != shard.index_crc32 {
        let what = format!(
            "{}: crc32 {crc32}, the manifest says {}",
            shard.index, shard.index_crc32
        );
        return Err(damaged(source, &what));
    }
    ShardRecord::decode(&shard.index, &file)
}

/// What a directory is of, its path, and where it is opened if that is another.
type Place = (Belongs, Vec<u8>, Option<Vec<u8>>);

/// The directories of a listing, while samples are added.
struct Gathered {
    archives: Arc<[Arc<Archive>]>,
    contents: Contents,
    dirs: Vec<Dir>,
    belongs: Vec<Belongs>,
    /// Numbers of the directories, by what they are of and their paths.
    places: HashMap<Place, usize>,
    nameless: u64,
}

impl Gathered {
    fn new(archives: Arc<[Arc<Archive>]>, manifest: &Manifest) -> Self {
        Self {
            archives,
            contents: Contents::of(manifest),
            dirs: Vec::new(),
            belongs: Vec::new(),
            places: HashMap::new(),
            nameless: 0,
        }
    }

    /// Adds the samples of the shard of this number.
    fn add(&mut self, shard: usize, split: u16, record: &ShardRecord) -> Result<()> {
        for row in &record.samples {
            let files = rows::files(row, &self.contents);
            self.nameless += files.nameless;
            let belongs = Belongs {
                split,
                label: row.label,
            };
            let dir = self.dir(belongs, files.dir, files.opened_at);
            let sides = row.image.map(|image| (image.width, image.height));
            for (name, field) in files.fields {
                let extent = self.contents.extent(record, row, field);
                let sides = sides.filter(|_| is_image(&name));
                let archive = &self.archives[shard];
                if !extent.is_within(archive.bytes) {
                    return Err(Error::new(
                        Kind::Damage,
                        format!(
                            "{}: its index has sample `{}` beyond its {} bytes: run `shardpack verify` there",
                            record.shard, row.key, archive.bytes
                        ),
                    ));
                }
                if !self.dirs[dir].push_listed(&name, field.length, shard, &extent, sides) {
                    return Err(Error::failed(format!(
                        "{}: sample `{}` does not fit into the listing: give its images as source",
                        record.shard, row.key
                    )));
                }
            }
        }
        Ok(())
    }

    /// The number of the directory for files that belong together.
    fn dir(&mut self, belongs: Belongs, path: Vec<u8>, opened_at: Option<Vec<u8>>) -> usize {
        let place = (belongs, path, opened_at);
        if let Some(&number) = self.places.get(&place) {
            return number;
        }
        let (_, path, opened_at) = place.clone();
        let dir = Dir::listed(path, opened_at, Arc::clone(&self.archives));
        self.dirs.push(dir);
        self.belongs.push(belongs);
        self.places.insert(place, self.dirs.len() - 1);
        self.dirs.len() - 1
    }
}
