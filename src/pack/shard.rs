//! One shard from its first sample to its commit: packed, compressed, digested, put.

use crate::base::checksum::{Digest, crc_text};
use crate::base::error::{Error, Kind, Result};
use crate::base::image::ImageInfo;
use crate::format::compress::{Compressor, Packed};
use crate::format::{About, Body, Layout, Out as _, Packer};
use crate::model::recipe::{Compression, Names, Recipe, filling};
use crate::model::record::{FieldRecord, Remark, SampleRecord, ShardRecord, recorded_label};
use crate::model::sample::Sample;
use crate::pack::look::{look, odd};
use crate::pack::lookahead::{Content, Fetched};
use crate::pack::policy::{Judgement, Shared};
use crate::pack::run::Run;
use crate::plan::value::ShardPlan;
use crate::store::ShardWriter;

/// How the packing of a shard ended.
pub(super) enum Attempt {
    /// It is there, its record is not yet.
    Made(Box<ShardRecord>),
    /// Samples at fault that may not be skipped.
    RefusedSamples,
    /// Its first bytes say another length than it came to have.
    Resized {
        /// The length before compression.
        bytes: u64,
        /// What was left out.
        skipped: Vec<Remark>,
    },
}

/// A shard that is being packed. Dropped, it leaves nothing behind.
pub(super) struct ShardPacking<'a> {
    run: &'a Run<'a>,
    shared: &'a Shared,
    recipe: &'a Recipe,
    names: &'a Names,
    layout: &'a dyn Layout,
    packer: Box<dyn Packer + 'a>,
    out: Compressor<Box<dyn ShardWriter>>,
    record: ShardRecord,
    /// Whether a sample at fault may not be skipped: then the others are only looked at.
    is_refused: bool,
}

impl<'a> ShardPacking<'a> {
    /// Begins a shard that is to have so many bytes before compression.
    pub(super) fn begin(
        run: &'a Run<'a>,
        shared: &'a Shared,
        layout: &'a dyn Layout,
        plan: &ShardPlan,
        bytes: u64,
    ) -> Result<Self> {
        let stored = run.stored;
        let (recipe, names) = (&stored.plan.recipe, &stored.plan.names);
        let packer = layout.packer(names)?;
        let digest = Digest::new(run.sink.create(&plan.name, bytes)?, recipe.sha256);
        let out = Compressor::new(&plan.name, digest, recipe.compress, bytes)?;
        let mut record = ShardRecord {
            split: plan.split.clone(),
            plan: stored.digest.clone(),
            ..ShardRecord::empty(&plan.name)
        };
        record.samples.reserve_exact(plan.samples as usize);
        Ok(Self {
            run,
            shared,
            recipe,
            names,
            layout,
            packer,
            out,
            record,
            is_refused: false,
        })
    }

    /// Packs a sample, or decides about it where it is at fault.
    pub(super) fn push(&mut self, fetched: &mut Fetched<'_>) -> Result<()> {
        let bytes: u64 = fetched.sample.fields.iter().map(|field| field.size).sum();
        match look(self.layout, fetched, self.recipe.validate) {
            Ok(image) if !self.is_refused => {
                self.out.begin_sample(bytes)?;
                self.append(fetched, image)?;
                self.record.odd.extend(odd(&fetched.sample, image));
            }
            Ok(_) => {}
            Err(error) => {
                let sample = &fetched.sample;
                let judged = self
                    .shared
                    .judge(self.run, sample, error, &mut self.record)?;
                self.is_refused |= judged == Judgement::RefusedSamples;
            }
        }
        self.run.counters.sample(bytes);
        Ok(())
    }

    fn append(&mut self, fetched: &mut Fetched<'_>, image: Option<ImageInfo>) -> Result<()> {
        let sample = &fetched.sample;
        let mut bodies: Vec<(&str, Body<'_>)> = Vec::with_capacity(sample.fields.len());
        for (field, content) in sample.fields.iter().zip(&mut fetched.contents) {
            let body = match content {
                Ok(Content::Held(buffer)) => Body::Bytes {
                    bytes: buffer,
                    crc32: buffer.crc32,
                },
                Ok(Content::Large(large)) => Body::Stream {
                    size: large.size(),
                    pieces: large,
                },
                Err(_) => return Err(Error::failed(format!("{}: no content", field.path))),
            };
            bodies.push((&field.name, body));
        }
        let filled = self.recipe.filled(&sample.fields, self.names);
        bodies.extend(
            filled
                .into_iter()
                .map(|name| (name, Body::new(filling(name)))),
        );
        let about = About::of(sample, &self.record.split, image, self.names);
        let placed = self.packer.append(&mut self.out, &about, &mut bodies)?;
        check_listed(sample, &placed.fields)?;
        self.record.samples.push(SampleRecord {
            key: sample.key.clone(),
            label: recorded_label(sample.label),
            source_path: about.path.clone(),
            offset: placed.offset,
            length: placed.length,
            image,
            fields: placed.fields,
            frame: None,
        });
        Ok(())
    }

    /// Ends the shard and commits it, if it is one that may be published.
    pub(super) fn finish(mut self) -> Result<Attempt> {
        if self.is_refused {
            return Ok(Attempt::RefusedSamples);
        }
        let mut record = self.record;
        self.packer.finish(&mut self.out)?;
        if self.out.broke_pledge() {
            return Ok(Attempt::Resized {
                bytes: self.out.position(),
                skipped: record.skipped,
            });
        }
        let Packed {
            inner: writer,
            sum,
            unpacked_bytes,
            frames,
        } = self.out.finish()?;
        writer.commit(sum.crc32)?;
        let is_compressed = self.recipe.compress != Compression::None;
        record.bytes = sum.bytes;
        record.unpacked_bytes = is_compressed.then_some(unpacked_bytes);
        record.crc32 = sum.crc32;
        record.sha256 = sum.sha256;
        for late in self.packer.late() {
            record.samples[late.sample].fields.push(late.field);
        }
        if let Some(frames) = frames {
            frames.enter(&mut record);
        }
        Ok(Attempt::Made(Box::new(record)))
    }
}

/// Refuses contents that are not what the list of the dataset says which they were read from. A read compares what it gives; this compares what was
/// packed, however it was read.
fn check_listed(sample: &Sample, placed: &[FieldRecord]) -> Result<()> {
    for field in &sample.fields {
        let packed = placed.iter().find(|packed| packed.name == field.name);
        if let (Some(said), Some(packed)) = (field.version.listed_crc32(), packed)
            && said != packed.crc32
        {
            let what = format!(
                "{}: sample `{}`: crc32 {}, the dataset says {}: run `shardpack verify` there",
                field.path,
                sample.key,
                crc_text(packed.crc32),
                crc_text(said)
            );
            return Err(Error::new(Kind::Damage, what));
        }
    }
    Ok(())
}
