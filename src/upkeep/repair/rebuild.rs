//! A damaged shard made again from its index: its own contents where they are intact, the source's files where they are not, and all
//! that the layout puts around them from what the index says.
//!
//! The index tells of every content where it lay and which CRC-32 it had, so none is taken on trust, wherever it comes from. One content
//! that nobody has any more is enough to leave the shard as it lies: all the others are in there.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use super::salvage::{Cursor, Later, Losses, Remains, is_filling};
use crate::base::buffer::{Buffer, Pieces};
use crate::base::checksum::Digest;
use crate::base::error::{Error, Kind, Result};
use crate::base::image::image_field;
use crate::base::signal::Stop;
use crate::base::units::{count_text, counted};
use crate::format::RecipeLayout as _;
use crate::format::compress::{Compressor, Packed};
use crate::format::{About, Body, Layout, Packer};
use crate::model::counters::Counters;
use crate::model::listing::Listing;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::recipe::filling;
use crate::model::record::{FieldRecord, SampleRecord, ShardRecord};
use crate::model::sample::{Field, Sample, SourcePath, sidecar_field, split_extension};
use crate::pack::lookahead::{Content, Fetched, Lookahead};
use crate::store::{ShardWriter, Sink, Source};

/// Lost samples of a shard that are named.
const NAMED: usize = 20;

/// A shard to be made again, whose index is as it was published.
pub(super) struct Damaged<'a> {
    pub(super) shard: &'a ShardEntry,
    pub(super) record: ShardRecord,
    /// Its length now; nothing where it is gone.
    pub(super) bytes: u64,
    pub(super) losses: Losses,
}

/// Files of the source by directory and stem, of those samples that lost something.
#[derive(Default)]
pub(super) struct Wanted(HashMap<SourcePath, Vec<Field>>);

impl Wanted {
    /// Takes down what a shard needs.
    pub(super) fn add(&mut self, damaged: &Damaged<'_>) {
        for &(row, _) in &damaged.losses.fields {
            let path = &damaged.record.samples[row].source_path;
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
                    });
                }
            }
        }
    }

    /// The file of a field, or why there is none.
    fn file(&self, row: &SampleRecord, field: &FieldRecord) -> Result<Field, String> {
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
fn is_image(row: &SampleRecord, field: &FieldRecord) -> bool {
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

/// Where contents come from that a shard has lost.
#[derive(Clone, Copy)]
pub(super) enum Supply<'a> {
    /// These files.
    Files(&'a dyn Source, &'a Wanted),
    /// Nowhere, for this reason.
    Nowhere(&'a str),
}

/// How shards are made again.
pub(super) struct Rebuild<'a> {
    /// Takes what was published, and nothing else.
    pub(super) sink: &'a dyn Sink,
    pub(super) manifest: &'a Manifest,
    /// Bytes of source files read ahead.
    pub(super) window_bytes: u64,
    pub(super) counters: &'a Counters,
    pub(super) stop: &'a Stop,
}

/// The samples that cannot be made again, by their numbers, each with the reason.
type Lost = BTreeMap<usize, String>;

/// A shard being written.
struct Making<'p> {
    packer: Box<dyn Packer + 'p>,
    out: Compressor<Box<dyn ShardWriter>>,
}

/// A content on its way into a shard.
enum Given<'s> {
    /// All of it, and its CRC-32.
    Held(&'s [u8], u32),
    /// The same, read from the shard itself.
    Kept(Vec<u8>, u32),
    /// To be read from the shard, piece by piece.
    Later(Box<dyn Pieces + 's>),
    /// To be read from the source, piece by piece.
    Large(&'s mut dyn Pieces),
}

impl<'a> Rebuild<'a> {
    /// What a shard of this length still has.
    pub(super) fn survey<'s>(
        &self,
        shard: &'s ShardEntry,
        record: ShardRecord,
        bytes: u64,
    ) -> Result<Damaged<'s>> {
        let layout = self.manifest.recipe.layout();
        let remains = self.remains(&record, bytes);
        let losses = remains.losses(&self.made(layout.as_ref()), layout.defers())?;
        Ok(Damaged {
            shard,
            record,
            bytes,
            losses,
        })
    }

    fn remains<'r>(&self, record: &'r ShardRecord, bytes: u64) -> Remains<'r>
    where
        'a: 'r,
    {
        Remains {
            sink: self.sink,
            compress: self.manifest.recipe.compress,
            record,
            bytes,
        }
    }

    /// Names of fields that the layout makes by itself.
    fn made(&self, layout: &dyn Layout) -> Vec<&'static str> {
        match self.manifest.recipe.foreign {
            true => Vec::new(),
            false => layout.generated(),
        }
    }

    /// Makes the shard again; says what is lost where that cannot be done.
    pub(super) fn make(&self, damaged: &Damaged<'_>, supply: Supply<'_>) -> Result<Option<String>> {
        let all = || {
            damaged
                .losses
                .fields
                .iter()
                .map(|&(row, _)| (row, String::new()))
        };
        if self.manifest.recipe.foreign {
            let why = "it was made by somebody else: copy it again from where it came";
            return Ok(Some(told(damaged, &all().collect(), why)));
        }
        let files = match supply {
            Supply::Files(source, wanted) => Some((source, wanted)),
            Supply::Nowhere(_) if damaged.losses.fields.is_empty() => None,
            Supply::Nowhere(why) => return Ok(Some(told(damaged, &all().collect(), why))),
        };
        let mut lost = Lost::new();
        let todo = files.map_or(Vec::new(), |(_, wanted)| todo(damaged, wanted, &mut lost));
        let rows: Vec<usize> = todo.iter().map(|(row, _)| *row).collect();
        let mut ahead = files
            .map(|(source, _)| Lookahead::new(source, todo.into_iter().map(Ok), self.window_bytes));
        let layout = self.manifest.recipe.layout();
        let (made, columns) = (self.made(layout.as_ref()), layout.defers());
        let remains = self.remains(&damaged.record, damaged.bytes);
        let cursors: Vec<_> = (0..remains.cursors(columns))
            .map(|_| RefCell::new(remains.cursor()))
            .collect();
        let mut making = match lost.is_empty() {
            true => Some(self.begin(damaged, layout.as_ref())?),
            false => None,
        };
        for (number, row) in damaged.record.samples.iter().enumerate() {
            self.stop.check()?;
            let mut fetched = match (rows.binary_search(&number), &mut ahead) {
                (Ok(_), Some(ahead)) => ahead.fetch().transpose()?,
                _ => None,
            };
            let sample = Contents {
                row,
                number,
                made: &made,
                losses: &damaged.losses,
                cursors: &cursors,
                columns,
            };
            let packed = match &mut making {
                Some(making) => self.pack(making, &damaged.record.split, &sample, fetched.as_mut()),
                None => sample.compare(fetched.as_mut()),
            };
            match packed {
                Ok(()) => {}
                // A file, or what lay in the shard, is not what it was when it was looked at.
                Err(error) if matches!(error.kind(), Kind::Sample | Kind::Source) => {
                    lost.entry(number).or_insert_with(|| error.to_string());
                    // What was written of it is dropped; the others are looked at, to name all that are lost.
                    making = None;
                }
                Err(error) => return Err(error),
            }
            if let (Some(fetched), Some(ahead)) = (fetched, &mut ahead) {
                ahead.recycle(fetched.contents);
            }
            self.counters.sample(row.length);
        }
        match making {
            Some(making) => self.end(damaged.shard, making),
            None => Ok(Some(told(damaged, &lost, ""))),
        }
    }

    fn begin<'p>(&'p self, damaged: &Damaged<'_>, layout: &'p dyn Layout) -> Result<Making<'p>> {
        let recipe = &self.manifest.recipe;
        let name = &damaged.shard.name;
        let bytes = damaged.record.unpacked_bytes();
        let digest = Digest::new(self.sink.create(name, bytes)?, recipe.sha256);
        Ok(Making {
            packer: layout.packer(&self.manifest.names)?,
            out: Compressor::new(name, digest, recipe.compress, bytes)?,
        })
    }

    /// Compares what was made with what was published, and commits it.
    fn end(&self, shard: &ShardEntry, making: Making<'_>) -> Result<Option<String>> {
        let Making {
            mut packer,
            mut out,
        } = making;
        packer.finish(&mut out)?;
        let Packed {
            inner: writer, sum, ..
        } = out.finish()?;
        self.counters.shard(&shard.name, sum.bytes, shard.samples);
        if sum.sha256 != shard.sha256 {
            let what = "made again it is not what was published, by its SHA-256";
            return Ok(Some(what.to_owned()));
        }
        // Length and CRC-32 are compared where it goes to.
        writer.commit(sum.crc32)?;
        Ok(None)
    }

    /// Packs one sample. A content that is not as it was published is an error of the source.
    fn pack(
        &self,
        making: &mut Making<'_>,
        split: &str,
        sample: &Contents<'_, '_>,
        fetched: Option<&mut Fetched<'_>>,
    ) -> Result<()> {
        let row = sample.row;
        let mut given = sample.gather(fetched)?;
        let mut bodies: Vec<(&str, Body<'_>)> = given
            .iter_mut()
            .map(|(field, given)| {
                let body = match given {
                    Given::Held(bytes, crc32) => Body::Bytes {
                        bytes,
                        crc32: *crc32,
                    },
                    Given::Kept(bytes, crc32) => Body::Bytes {
                        bytes,
                        crc32: *crc32,
                    },
                    Given::Later(pieces) => Body::Stream {
                        pieces: pieces.as_mut(),
                        size: field.length,
                    },
                    Given::Large(pieces) => Body::Stream {
                        pieces: *pieces,
                        size: field.length,
                    },
                };
                (field.name.as_str(), body)
            })
            .collect();
        if row.frame.is_some_and(|frame| frame.start == row.offset) {
            making.out.begin_frame()?;
        }
        let about = About::recorded(row, split, &self.manifest.names);
        let placed = making.packer.append(&mut making.out, &about, &mut bodies)?;
        // Of what was streamed it is known only now.
        for placed in &placed.fields {
            let said = row.fields.iter().find(|field| field.name == placed.name);
            if said.is_some_and(|said| said.crc32 != placed.crc32) {
                return Err(another_content(&placed.name));
            }
        }
        Ok(())
    }
}

/// The samples of which files are read, in the order of the shard, with nothing but the files that are needed of them.
fn todo(damaged: &Damaged<'_>, wanted: &Wanted, lost: &mut Lost) -> Vec<(usize, Sample)> {
    let mut todo: Vec<(usize, Sample)> = Vec::new();
    for &(number, at) in &damaged.losses.fields {
        let row = &damaged.record.samples[number];
        let field = match wanted.file(row, &row.fields[at]) {
            Ok(field) => field,
            Err(why) => {
                lost.entry(number).or_insert(why);
                continue;
            }
        };
        match todo.last_mut() {
            Some((last, sample)) if *last == number => sample.fields.push(field),
            _ => {
                let sample = Sample {
                    key: row.key.clone(),
                    label: row.label,
                    fields: vec![field],
                };
                todo.push((number, sample));
            }
        }
    }
    todo
}

fn another_content(what: impl std::fmt::Display) -> Error {
    Error::source_data(format!(
        "{what} has another content than what was published"
    ))
}

/// Where the contents of one sample are.
struct Contents<'r, 'c> {
    row: &'r SampleRecord,
    number: usize,
    made: &'r [&'static str],
    losses: &'r Losses,
    cursors: &'r [RefCell<Cursor<'c>>],
    columns: bool,
}

impl<'r> Contents<'r, '_> {
    /// Each content that is not made, in the order in which they lie.
    fn gather<'s>(
        &'s self,
        fetched: Option<&'s mut Fetched<'_>>,
    ) -> Result<Vec<(&'r FieldRecord, Given<'s>)>> {
        let mut files = match fetched {
            Some(fetched) => sound(fetched)?,
            None => Vec::new(),
        };
        let mut given = Vec::with_capacity(self.row.fields.len());
        for (at, field) in self.row.fields.iter().enumerate() {
            if self.made.contains(&field.name.as_str()) {
                continue;
            }
            let content = match (is_filling(field), self.losses.has((self.number, at))) {
                (true, _) => Given::Held(filling(&field.name), field.crc32),
                (_, false) => self.kept(at, field)?,
                (_, true) => file(field, &mut files)?,
            };
            given.push((field, content));
        }
        Ok(given)
    }

    /// A content that the shard still has.
    fn kept<'s>(&'s self, at: usize, field: &'r FieldRecord) -> Result<Given<'s>> {
        let (row, cursor) = (self.row, &self.cursors[if self.columns { at } else { 0 }]);
        // Columns besides that of the images hold small contents, and packers hold those.
        if !self.columns || is_image(row, field) {
            return Ok(Given::Later(Box::new(Later::new(cursor, row, field))));
        }
        let mut content = Vec::new();
        let mut take = |piece: &[u8]| content.extend_from_slice(piece);
        match cursor.borrow_mut().read(row, field, &mut take)? {
            true => Ok(Given::Kept(content, field.crc32)),
            false => Err(another_content(format_args!("its `{}`", field.name))),
        }
    }

    /// Only looks whether the files are those that were packed.
    fn compare(&self, fetched: Option<&mut Fetched<'_>>) -> Result<()> {
        let mut files = match fetched {
            Some(fetched) => sound(fetched)?,
            None => return Ok(()),
        };
        for field in &self.row.fields {
            if !files.iter().any(|(file, _)| file.name == field.name) {
                continue;
            }
            if let Given::Large(pieces) = file(field, &mut files)? {
                let mut crc32 = crc32fast::Hasher::new();
                while let Some(piece) = pieces.next_piece()? {
                    crc32.update(piece);
                }
                if crc32.finalize() != field.crc32 {
                    return Err(another_content(format_args!("its `{}`", field.name)));
                }
            }
        }
        Ok(())
    }
}

/// A content that is read from the source; it is taken out of what was fetched.
fn file<'s, 'l: 's>(
    field: &FieldRecord,
    files: &mut Vec<(&'s Field, &'s mut Content<'l>)>,
) -> Result<Given<'s>> {
    let found = files.iter().position(|(file, _)| file.name == field.name);
    match found.map(|at| files.swap_remove(at)) {
        Some((file, Content::Held(buffer))) => match buffer.crc32 == field.crc32 {
            true => Ok(Given::Held(buffer, buffer.crc32)),
            false => Err(another_content(&file.path)),
        },
        Some((_, Content::Large(large))) => Ok(Given::Large(large)),
        None => Err(another_content(format_args!("its `{}`", field.name))),
    }
}

/// The files of a sample with what was read of them, or the first failure.
fn sound<'s, 'l>(fetched: &'s mut Fetched<'l>) -> Result<Vec<(&'s Field, &'s mut Content<'l>)>> {
    let files = fetched.sample.fields.iter().zip(&mut fetched.contents);
    files
        .map(|(file, content)| {
            if content.is_err() {
                let nothing = Ok(Content::Held(Buffer::default()));
                std::mem::replace(content, nothing)?;
            }
            match content {
                Ok(content) => Ok((file, content)),
                Err(_) => Err(another_content(&file.path)),
            }
        })
        .collect()
}

/// Why a shard is left as it lies: the samples that it has lost, and why nobody has them any more.
fn told(damaged: &Damaged<'_>, lost: &Lost, why: &str) -> String {
    use std::fmt::Write;
    let samples = damaged.record.samples.len() as u64;
    let mut text = match lost.is_empty() {
        true => "damaged, in nothing that belongs to a sample".to_owned(),
        false => format!(
            "{} of {} lost",
            count_text(lost.len() as u64),
            counted(samples, "sample"),
        ),
    };
    if !why.is_empty() {
        // Writing to a string cannot fail.
        let _ = write!(text, ", {why}");
    }
    for (at, (&row, reason)) in lost.iter().take(NAMED).enumerate() {
        let before = if at == 0 { ": " } else { ", " };
        let _ = write!(text, "{before}`{}`", damaged.record.samples[row].key);
        if !reason.is_empty() {
            let _ = write!(text, " ({reason})");
        }
    }
    if let Some(more) = lost.len().checked_sub(NAMED).filter(|more| *more > 0) {
        let _ = write!(text, ", and {} more", count_text(more as u64));
    }
    if let Some(at) = damaged.losses.ends_at {
        let _ = write!(
            text,
            "; after byte {at} of its content nothing can be unpacked any more"
        );
    }
    if (lost.len() as u64) < samples && damaged.bytes > 0 {
        text.push_str("; it stays as it is, with all that is intact in it");
    }
    text
}
