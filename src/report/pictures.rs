//! Small pictures of some samples: a few of the first classes, and those that stand out, are odd, or are there twice.
//!
//! They are read from the shards when the page is made, and bounded by what a page may have.

use std::collections::BTreeMap;

use crate::base::error::Result;
use crate::base::image::thumbnail;
use crate::base::signal::Stop;
use crate::model::record::{Remark, SampleRecord};
use crate::model::sample::FilePath;
use crate::report::page::LISTED;
use crate::store::{Source, at_once, whole};
use crate::upkeep::content::pick;
use crate::upkeep::places::{Place, Shelf};

/// Classes that have some of their pictures shown.
pub(super) const CLASSES: usize = 12;
/// Pictures of each.
const OF_EACH: usize = 4;
/// Side of a picture in pixels.
const SIDE: u32 = 128;
/// Bytes of all pictures together at most: with base64 two thirds of the two megabytes that a page may have.
const MOST_BYTES: usize = 1_000_000;
/// An image's file at most; a larger one has no picture.
const FILE_BYTES: u64 = 32 << 20;
/// What decoding one may take.
const DECODE_BYTES: u64 = 96 << 20;

/// Samples of a class that are candidates: those with the smallest checksums, which is any of them, and the same each time.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates(Vec<Vec<(u32, Place)>>);

impl Candidates {
    /// Takes a sample in, if it is of one of the first classes.
    pub(super) fn add(&mut self, sample: &SampleRecord, place: Place) {
        let label = sample.label as usize;
        if label >= CLASSES {
            return;
        }
        if let Ok(image) = pick(sample, None) {
            self.0.resize_with(self.0.len().max(label + 1), Vec::new);
            keep(&mut self.0[label], [(image.crc32, place)]);
        }
    }

    /// Adds what others have.
    pub(super) fn merge(&mut self, other: Self) {
        let classes = self.0.len().max(other.0.len());
        self.0.resize_with(classes, Vec::new);
        for (ours, theirs) in self.0.iter_mut().zip(other.0) {
            keep(ours, theirs);
        }
    }

    /// The labels with the places of their samples.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, Vec<Place>)> {
        let places = |class: &Vec<(u32, Place)>| class.iter().map(|(_, place)| *place).collect();
        self.0.iter().map(places).enumerate()
    }
}

fn keep(class: &mut Vec<(u32, Place)>, more: impl IntoIterator<Item = (u32, Place)>) {
    class.extend(more);
    class.sort_unstable();
    class.truncate(OF_EACH);
}

/// The key of a sample, and its picture as a JPEG; `None` where there could be none.
pub(super) type Picture = (String, Option<Vec<u8>>);

/// Pictures of samples that were skipped, from the source that has them: of most that cannot be used nothing can be seen either.
pub(super) fn skipped(
    source: &dyn Source,
    remarks: &[Remark],
    stop: &Stop,
) -> Result<Vec<Picture>> {
    let pictures = remarks.iter().take(LISTED).map(|remark| {
        stop.check()?;
        // As it is now, whatever it was when it was skipped.
        let path = FilePath::try_from(remark.path.clone()).ok();
        let file = path.and_then(|path| whole(source, path, FILE_BYTES).ok()?);
        let jpeg = file.and_then(|file| thumbnail(&file, SIDE, DECODE_BYTES).ok());
        Ok((remark.key.clone(), jpeg))
    });
    pictures.collect()
}

/// Pictures as a page shows them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pictures {
    /// JPEGs by the key of their sample; `None` where there could be none.
    pub jpegs: BTreeMap<String, Option<Vec<u8>>>,
    /// Labels of the first classes, each with the keys of some of its samples.
    pub of_classes: Vec<(usize, Vec<String>)>,
    /// Why there are none at all, if so.
    pub missing: Option<String>,
}

/// Whether this build can make any.
pub(super) const POSSIBLE: bool = cfg!(feature = "decode");

impl Pictures {
    /// None, for this reason.
    pub(super) fn none(reason: String) -> Self {
        Self {
            missing: Some(reason),
            ..Self::default()
        }
    }

    /// Takes those of what was skipped, makes those of `first`, in this order, and then those of classes, until the page has enough.
    pub(super) fn make(
        shelf: &Shelf<'_>,
        skipped: Vec<Picture>,
        first: &[Place],
        candidates: &Candidates,
        memory: u64,
    ) -> Result<Self> {
        if !POSSIBLE {
            let reason = "this program was built without the feature `decode`";
            return Ok(Self::none(reason.to_owned()));
        }
        let of_classes: Vec<(usize, Vec<Place>)> = candidates.places().collect();
        let of_all = of_classes.iter().flat_map(|(_, places)| places);
        let mut order: Vec<Place> = Vec::new();
        for place in first.iter().chain(of_all) {
            if !order.contains(place) {
                order.push(*place);
            }
        }
        let rows = shelf.rows(order.iter().copied())?;
        let each = FILE_BYTES + DECODE_BYTES;
        let depth = shelf.depth.min((memory / each) as usize).clamp(1, 16);
        let made = at_once(depth, &order, |place| {
            shelf.stop.check()?;
            match rows.get(place) {
                Some(row) => one(shelf, *place, row),
                None => Ok(None),
            }
        })?;
        let mut pictures = Self::default();
        let mut bytes = 0;
        let of_dataset = order.iter().zip(made);
        let of_dataset =
            of_dataset.filter_map(|(place, jpeg)| Some((rows.get(place)?.key.clone(), jpeg)));
        for (key, jpeg) in skipped.into_iter().chain(of_dataset) {
            bytes += jpeg.as_ref().map_or(0, Vec::len);
            if bytes <= MOST_BYTES {
                pictures.jpegs.insert(key, jpeg);
            }
        }
        let key = |place: &Place| rows.get(place).map(|row| row.key.clone());
        pictures.of_classes = of_classes
            .into_iter()
            .map(|(label, places)| (label, places.iter().filter_map(key).collect()))
            .collect();
        Ok(pictures)
    }
}

/// A sample's picture; none if it is damaged, too large, or of a kind that is not decoded.
fn one(shelf: &Shelf<'_>, place: Place, row: &SampleRecord) -> Result<Option<Vec<u8>>> {
    let field = match pick(row, None) {
        Ok(field) if field.length <= FILE_BYTES => field,
        _ => return Ok(None),
    };
    let mut file = Vec::with_capacity(field.length as usize);
    let is_sound = shelf.image(place, row, &mut |piece| file.extend_from_slice(piece))?;
    Ok(is_sound
        .then(|| thumbnail(&file, SIDE, DECODE_BYTES).ok())
        .flatten())
}
