//! A damaged shard made again from its index: its own contents where they are intact, the source's files where they are not, and all
//! that the layout puts around them from what the index says.
//!
//! The index tells of every content where it lay and which CRC-32 it had, so none is taken on trust, wherever it comes from. One content
//! that nobody has any more is enough to leave the shard as it lies: all the others are in there.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::base::checksum::Digest;
use crate::base::error::{Kind, Result};
use crate::base::signal::Stop;
use crate::base::units::{count_text, counted};
use crate::format::RecipeLayout as _;
use crate::format::compress::{Compressor, Packed};
use crate::format::{About, Body, Layout, Packer};
use crate::model::counters::Counters;
use crate::model::manifest::{Manifest, ShardEntry};
use crate::model::record::{ShardRecord, known_label};
use crate::model::sample::Sample;
use crate::pack::lookahead::{Fetched, Lookahead};
use crate::store::{ShardWriter, Sink, Source};
use crate::upkeep::repair::contents::{Contents, GivenContent, another_content};
use crate::upkeep::repair::salvage::{Losses, Remains};
use crate::upkeep::repair::wanted::WantedFiles;

/// Lost samples of a shard that are named.
const NAMED: usize = 20;

/// A shard to be made again, whose index is as it was published.
pub(super) struct SurveyedShard<'a> {
    pub(super) shard: &'a ShardEntry,
    pub(super) record: ShardRecord,
    /// Its length now; nothing where it is gone.
    pub(super) bytes: u64,
    pub(super) losses: Losses,
}

/// Where contents come from that a shard has lost.
#[derive(Clone, Copy)]
pub(super) enum Supply<'a> {
    /// These files.
    Files(&'a dyn Source, &'a WantedFiles),
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
struct OpenShard<'p> {
    packer: Box<dyn Packer + 'p>,
    out: Compressor<Box<dyn ShardWriter>>,
}

impl<'a> Rebuild<'a> {
    /// What a shard of this length still has.
    pub(super) fn survey<'s>(
        &self,
        shard: &'s ShardEntry,
        record: ShardRecord,
        bytes: u64,
    ) -> Result<SurveyedShard<'s>> {
        let layout = self.manifest.recipe.layout();
        let remains = self.remains(&record, bytes);
        let losses = remains.losses(&self.made(layout.as_ref()), layout.defers())?;
        Ok(SurveyedShard {
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
    pub(super) fn make(
        &self,
        damaged: &SurveyedShard<'_>,
        supply: Supply<'_>,
    ) -> Result<Option<String>> {
        let all = || {
            damaged
                .losses
                .fields
                .iter()
                .map(|&(row, _)| (row, String::new()))
        };
        if self.manifest.recipe.foreign {
            let why = "it was made by somebody else: copy it again from where it came";
            return Ok(Some(loss_text(damaged, &all().collect(), why)));
        }
        let files = match supply {
            Supply::Files(source, wanted) => Some((source, wanted)),
            Supply::Nowhere(_) if damaged.losses.fields.is_empty() => None,
            Supply::Nowhere(why) => return Ok(Some(loss_text(damaged, &all().collect(), why))),
        };
        let mut lost = Lost::new();
        let mut reads = SourceReads::new(damaged, files, self.window_bytes, &mut lost);
        let layout = self.manifest.recipe.layout();
        let open = match lost.is_empty() {
            true => Some(self.begin(damaged, layout.as_ref())?),
            false => None,
        };
        match self.pack_samples(damaged, layout.as_ref(), &mut reads, open, &mut lost)? {
            Some(open) => self.end(damaged.shard, open),
            None => Ok(Some(loss_text(damaged, &lost, ""))),
        }
    }

    /// Packs all samples. Once one of them is lost nothing is packed any more, and the others are looked at to name all that are lost.
    fn pack_samples<'p>(
        &self,
        damaged: &SurveyedShard<'_>,
        layout: &dyn Layout,
        reads: &mut SourceReads<'_>,
        mut open: Option<OpenShard<'p>>,
        lost: &mut Lost,
    ) -> Result<Option<OpenShard<'p>>> {
        let (made, columns) = (self.made(layout), layout.defers());
        let remains = self.remains(&damaged.record, damaged.bytes);
        let cursors: Vec<_> = (0..remains.cursors(columns))
            .map(|_| RefCell::new(remains.cursor()))
            .collect();
        for (number, row) in damaged.record.samples.iter().enumerate() {
            self.stop.check()?;
            let mut fetched = reads.fetch(number)?;
            let sample = Contents {
                row,
                number,
                made: &made,
                losses: &damaged.losses,
                cursors: &cursors,
                columns,
            };
            let packed = match &mut open {
                Some(open) => self.pack(open, &damaged.record.split, &sample, fetched.as_mut()),
                None => sample.compare(fetched.as_mut()),
            };
            match packed {
                Ok(()) => {}
                // A file, or what lay in the shard, is not what it was when it was looked at.
                Err(error) if matches!(error.kind(), Kind::Sample | Kind::Source) => {
                    lost.entry(number).or_insert_with(|| error.to_string());
                    // What was written of it is dropped.
                    open = None;
                }
                Err(error) => return Err(error),
            }
            if let (Some(fetched), Some(ahead)) = (fetched, &mut reads.ahead) {
                ahead.recycle(fetched.contents);
            }
            self.counters.sample(row.length);
        }
        Ok(open)
    }

    fn begin<'p>(
        &'p self,
        damaged: &SurveyedShard<'_>,
        layout: &'p dyn Layout,
    ) -> Result<OpenShard<'p>> {
        let recipe = &self.manifest.recipe;
        let name = &damaged.shard.name;
        let bytes = damaged.record.unpacked_bytes();
        let digest = Digest::new(self.sink.create(name, bytes)?, recipe.sha256);
        Ok(OpenShard {
            packer: layout.packer(&self.manifest.names)?,
            out: Compressor::new(name, digest, recipe.compress, bytes)?,
        })
    }

    /// Compares what was made with what was published, and commits it.
    fn end(&self, shard: &ShardEntry, open: OpenShard<'_>) -> Result<Option<String>> {
        let OpenShard {
            mut packer,
            mut out,
        } = open;
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
        open: &mut OpenShard<'_>,
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
                    GivenContent::Held(bytes, crc32) => Body::Bytes {
                        bytes,
                        crc32: *crc32,
                    },
                    GivenContent::Salvaged(bytes, crc32) => Body::Bytes {
                        bytes,
                        crc32: *crc32,
                    },
                    GivenContent::Later(pieces) => Body::Stream {
                        pieces: pieces.as_mut(),
                        size: field.length,
                    },
                    GivenContent::Large(pieces) => Body::Stream {
                        pieces: *pieces,
                        size: field.length,
                    },
                };
                (field.name.as_str(), body)
            })
            .collect();
        if row.frame.is_some_and(|frame| frame.start == row.offset) {
            open.out.begin_frame()?;
        }
        let about = About::recorded(row, split, &self.manifest.names);
        let placed = open.packer.append(&mut open.out, &about, &mut bodies)?;
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

/// The files that are read from the source, sample by sample.
struct SourceReads<'a> {
    /// Numbers of the samples of which files are read, in the order of the shard.
    numbers: Vec<usize>,
    ahead: Option<Lookahead<'a>>,
}

impl<'a> SourceReads<'a> {
    /// Begins to read; samples whose files are not there go to `lost`.
    fn new(
        damaged: &SurveyedShard<'_>,
        files: Option<(&'a dyn Source, &WantedFiles)>,
        window_bytes: u64,
        lost: &mut Lost,
    ) -> Self {
        let wanted = files.map(|(_, wanted)| wanted);
        let todo = wanted.map_or(Vec::new(), |wanted| samples_to_read(damaged, wanted, lost));
        Self {
            numbers: todo.iter().map(|(number, _)| *number).collect(),
            ahead: files
                .map(|(source, _)| Lookahead::new(source, todo.into_iter().map(Ok), window_bytes)),
        }
    }

    /// What was read for this sample; `None` where nothing is.
    fn fetch(&mut self, number: usize) -> Result<Option<Fetched<'a>>> {
        match (self.numbers.binary_search(&number), &mut self.ahead) {
            (Ok(_), Some(ahead)) => ahead.fetch().transpose(),
            _ => Ok(None),
        }
    }
}

/// The samples of which files are read, in the order of the shard, with nothing but the files that are needed of them.
fn samples_to_read(
    damaged: &SurveyedShard<'_>,
    wanted: &WantedFiles,
    lost: &mut Lost,
) -> Vec<(usize, Sample)> {
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
                    label: known_label(row.label),
                    fields: vec![field],
                };
                todo.push((number, sample));
            }
        }
    }
    todo
}

/// Why a shard is left as it lies: the samples that it has lost, and why nobody has them any more.
fn loss_text(damaged: &SurveyedShard<'_>, lost: &Lost, why: &str) -> String {
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
