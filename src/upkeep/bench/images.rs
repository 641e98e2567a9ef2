//! The images of a source as files: which there are, some of them in an order, read one by one; and some of them as a source to be packed.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde::Serialize;

use super::load::{Allowance, Load, Portion, Reader};
use crate::base::buffer::Buffer;
use crate::base::error::{Error, Result};
use crate::base::image::image_field;
use crate::base::reactor::Pending;
use crate::base::units::STREAM_ABOVE_BYTES;
use crate::model::listing::{Dir, Listing};
use crate::model::sample::{Field, FilePath, Version, split_extension};
use crate::store::{Dropped, Positioned, Source, in_pieces};

/// Images that are chosen among at most: more are not read in any measurement.
const MOST_CHOSEN: usize = 1 << 18;
/// Seed of what is chosen, so that two runs read the same.
const SEED: u64 = 0x5eed;

/// Where an image is in the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct At {
    dir: u32,
    file: u32,
}

/// How long listing took.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct ListingRate {
    pub(crate) files: u64,
    pub(crate) seconds: f64,
    pub(crate) files_per_second: f64,
    /// Requests; none where requests are not counted.
    pub(crate) requests: Option<u64>,
}

/// The images of a source.
pub(crate) struct Images {
    source: Arc<dyn Source>,
    listing: Arc<Listing>,
    /// How many there are.
    pub(crate) count: u64,
    /// Bytes of all of them.
    pub(crate) bytes: u64,
    /// Requests that reading each of them once takes, 0 where requests are not counted.
    pub(crate) requests: u64,
    pub(crate) rate: ListingRate,
    /// Some, in random order.
    random: Arc<Vec<At>>,
    /// The first ones, as they are listed.
    listed: Arc<Vec<At>>,
    /// Where the next measurement goes on, so that none begins with what the one before has just read.
    next: Arc<AtomicUsize>,
}

/// In which order images are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOrder {
    Random,
    Listed,
}

impl Images {
    /// Lists a source.
    ///
    /// # Errors
    ///
    /// A source that cannot be listed, or in which there is no image.
    pub(crate) fn list(source: &Arc<dyn Source>) -> Result<Self> {
        let began = Instant::now();
        let listing = source.list()?;
        let seconds = began.elapsed().as_secs_f64();
        let rate = ListingRate {
            files: listing.files(),
            seconds,
            files_per_second: listing.files() as f64 / seconds.max(1e-9),
            requests: has_requests(source.as_ref()).then(|| {
                let dirs = listing.dirs.iter();
                dirs.map(|dir| source.requests_to_list(dir.len() as u64))
                    .sum()
            }),
        };
        let (mut count, mut bytes, mut requests) = (0, 0, 0);
        for image in images(&listing) {
            count += 1;
            let size = size(&listing, image);
            bytes += size;
            requests += source.requests_to_read(size);
        }
        if count == 0 {
            return Err(Error::source_data(format!(
                "{source}: no images in {} files: give the directory, prefix or archive that holds them",
                listing.files()
            )));
        }
        let mut rng = Rng::with_seed(SEED);
        let mut random = chosen(images(&listing), count, &mut rng);
        rng.shuffle(&mut random);
        let listed = images(&listing).take(MOST_CHOSEN).collect();
        Ok(Self {
            source: Arc::clone(source),
            listing: Arc::new(listing),
            count,
            bytes,
            requests,
            rate,
            random: Arc::new(random),
            listed: Arc::new(listed),
            next: Arc::default(),
        })
    }

    /// The same images again and again, in this order.
    pub(crate) fn load(&self, order: ReadOrder) -> Files {
        let (images, next) = match order {
            ReadOrder::Random => (&self.random, Arc::clone(&self.next)),
            ReadOrder::Listed => (&self.listed, Arc::default()),
        };
        Files {
            source: Arc::clone(&self.source),
            listing: Arc::clone(&self.listing),
            images: Arc::clone(images),
            end: usize::MAX,
            next,
        }
    }

    /// The images that come next in this order, each once: as many as `forget` is told of in so much time before it has enough.
    pub(crate) fn load_once(
        &self,
        order: ReadOrder,
        time: Duration,
        mut forget: impl FnMut(&Field) -> Result<bool>,
    ) -> Result<Files> {
        let files = self.load(order);
        let began = Instant::now();
        let first = files.next.load(Ordering::Relaxed);
        let mut end = first;
        while end - first < files.images.len()
            && began.elapsed() < time
            && forget(&files.field(end))?
        {
            end += 1;
        }
        Ok(Files { end, ..files })
    }

    /// See [`Source::drop_cached`].
    pub(super) fn drop_cached(&self, field: &Field) -> Result<Option<Dropped>> {
        self.source.drop_cached(field)
    }

    /// So many images of the random order, each with its content, until they are so many bytes.
    pub(crate) fn contents(&self, most: usize, allowance: &Allowance) -> Result<Vec<Buffer>> {
        let files = self.load(ReadOrder::Random);
        let mut contents = Vec::new();
        for number in 0..most.min(self.random.len()) {
            let field = files.field(number);
            if field.size > STREAM_ABOVE_BYTES || !allowance.take(field.size) {
                continue;
            }
            contents.push(self.source.start(&field).wait()?);
        }
        Ok(contents)
    }

    /// How long the first byte of an image takes, of so many images one after the other, in so much time; in milliseconds, sorted.
    pub(crate) fn first_bytes(
        &self,
        most: usize,
        time: Duration,
        check: impl Fn() -> Result<()>,
    ) -> Result<Vec<f32>> {
        let files = self.load(ReadOrder::Random);
        let began = Instant::now();
        let mut waits = Vec::new();
        for number in 0..most {
            check()?;
            if began.elapsed() >= time {
                break;
            }
            let asked = Instant::now();
            let byte = self.source.part(&files.field(number), 0, 1).wait()?;
            waits.push(asked.elapsed().as_secs_f32() * 1e3);
            self.source.recycle(byte);
        }
        waits.sort_unstable_by(f32::total_cmp);
        Ok(waits)
    }

    /// Some of the images as a source of their own, of at most so many bytes and so many images, but at least one.
    pub(crate) fn some(&self, bytes: u64, images: u64) -> Sampled {
        let mut left = bytes;
        let mut keys = HashSet::new();
        let mut picked = Vec::new();
        for &at in self.random.iter().rev() {
            let size = size(&self.listing, at);
            if !picked.is_empty() && (size > left || picked.len() as u64 >= images) {
                break;
            }
            let name = self.listing.dirs[at.dir as usize]
                .file(at.file as usize)
                .name;
            // Two images of one stem would be one sample.
            if keys.insert((at.dir, split_extension(name).0.to_ascii_lowercase())) {
                left = left.saturating_sub(size);
                picked.push(at);
            }
        }
        picked.sort_unstable_by_key(|at| (at.dir, at.file));
        Sampled {
            source: Arc::clone(&self.source),
            listing: Arc::clone(&self.listing),
            bytes: picked.iter().map(|&at| size(&self.listing, at)).sum(),
            picked,
        }
    }
}

/// Whether requests are counted where this source lies.
pub(crate) fn has_requests(source: &dyn Source) -> bool {
    source.requests_to_read(1) > 0
}

/// The files that are images by their names, and not empty.
fn images(listing: &Listing) -> impl Iterator<Item = At> + '_ {
    let dirs = (0u32..).zip(&listing.dirs);
    dirs.flat_map(|(number, dir)| {
        let files = (0u32..).take(dir.len());
        files
            .filter(move |&file| {
                let file = dir.file(file as usize);
                file.size > 0 && image_field(split_extension(file.name).1).is_some()
            })
            .map(move |file| At { dir: number, file })
    })
}

fn size(listing: &Listing, at: At) -> u64 {
    listing.dirs[at.dir as usize].file(at.file as usize).size
}

/// As many as are chosen at most, each with the same chance, in order.
fn chosen(all: impl Iterator<Item = At>, count: u64, rng: &mut Rng) -> Vec<At> {
    let mut wanted = count.min(MOST_CHOSEN as u64);
    let mut left = count;
    let mut chosen = Vec::with_capacity(wanted as usize);
    for at in all {
        if wanted > 0 && rng.u64(0..left) < wanted {
            chosen.push(at);
            wanted -= 1;
        }
        left -= 1;
    }
    chosen
}

/// Images to be read one by one.
#[derive(Clone)]
pub(crate) struct Files {
    source: Arc<dyn Source>,
    listing: Arc<Listing>,
    images: Arc<Vec<At>>,
    /// Number of the first read that is not made any more.
    end: usize,
    next: Arc<AtomicUsize>,
}

impl Files {
    /// What to read next; none when all that was to be read is.
    fn next(&self) -> Option<Field> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.end).then(|| self.field(number))
    }

    fn field(&self, number: usize) -> Field {
        let at = self.images[number % self.images.len()];
        let dir = &self.listing.dirs[at.dir as usize];
        let file = dir.file(at.file as usize);
        let name = image_field(split_extension(file.name).1);
        Field {
            name: name.unwrap_or_default().to_owned(),
            path: dir.path_of(at.file as usize),
            size: file.size,
            version: file.version(),
            content: None,
        }
    }
}

impl Load for Files {
    fn reader(&self, _: usize, _: usize) -> Box<dyn Reader> {
        Box::new(self.clone())
    }
}

impl Reader for Files {
    fn read(&mut self, allowance: &Allowance) -> Result<Option<Portion>> {
        let Some(field) = self.next().filter(|field| allowance.take(field.size)) else {
            return Ok(None);
        };
        let asked = Instant::now();
        in_pieces(self.source.as_ref(), &field, &mut |_| ())?;
        Ok(Some(Portion {
            images: 1,
            bytes: field.size,
            requests: self.source.requests_to_read(field.size),
            waited: Some(asked.elapsed()),
            first_sample: None,
        }))
    }
}

/// Some images of a source, as a source.
pub(crate) struct Sampled {
    source: Arc<dyn Source>,
    listing: Arc<Listing>,
    picked: Vec<At>,
    /// Bytes of all of them.
    pub(crate) bytes: u64,
}

impl fmt::Display for Sampled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Source for Sampled {
    fn list(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        for of_dir in self.picked.chunk_by(|a, b| a.dir == b.dir) {
            let whole = &self.listing.dirs[of_dir[0].dir as usize];
            let mut dir = Dir::new(whole.path.clone());
            dir.opened_at.clone_from(&whole.opened_at);
            for at in of_dir {
                let file = whole.file(at.file as usize);
                // It fitted into the directory that it is of.
                let _ = dir.push(file.name, file.size, &file.version());
            }
            listing.dirs.push(dir);
        }
        Ok(listing)
    }

    fn start(&self, field: &Field) -> Pending<Buffer> {
        self.source.start(field)
    }

    fn start_all(&self, fields: &[&Field]) -> Vec<Pending<Buffer>> {
        self.source.start_all(fields)
    }

    fn adjoins(&self, field: &Field, next: &Field) -> bool {
        self.source.adjoins(field, next)
    }

    fn share_bytes(&self, field: &Field) -> u64 {
        self.source.share_bytes(field)
    }

    fn together_bytes(&self) -> u64 {
        self.source.together_bytes()
    }

    fn spare(&self, length: usize) -> Buffer {
        self.source.spare(length)
    }

    fn recycle(&self, buffer: Buffer) {
        self.source.recycle(buffer);
    }

    fn lend(&self, threads: usize) {
        self.source.lend(threads);
    }

    fn part(&self, field: &Field, offset: u64, length: u64) -> Pending<Buffer> {
        self.source.part(field, offset, length)
    }

    fn started_bytes(&self, field: &Field) -> u64 {
        self.source.started_bytes(field)
    }

    fn reads(&self) -> usize {
        self.source.reads()
    }

    fn overhead_bytes(&self) -> u64 {
        self.source.overhead_bytes()
    }

    fn window_bytes(&self) -> u64 {
        self.source.window_bytes()
    }

    fn requests_to_list(&self, files: u64) -> u64 {
        self.source.requests_to_list(files)
    }

    fn requests_to_read(&self, bytes: u64) -> u64 {
        self.source.requests_to_read(bytes)
    }

    fn look(&self, name: &FilePath) -> Result<Option<(u64, Version)>> {
        self.source.look(name)
    }

    fn open(&self, field: &Field) -> Result<Option<Box<dyn Positioned>>> {
        self.source.open(field)
    }
}
