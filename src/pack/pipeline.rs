//! One shard from its first sample to its record, and a worker's shards on scoped threads.
//!
//! One thread owns one shard: order needs no repair, and the first `?` drops everything that shard had started.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::base::buffer::Buffer;
use crate::base::checksum::Digest;
use crate::base::error::{Error, Kind, Result};
use crate::base::image::{HEAD_BYTES, ImageFormat, ImageInfo, Validate, probe, probe_ends};
use crate::base::signal::Stop;
use crate::base::units::STREAM_ABOVE_BYTES;
use crate::format::compress::{Compressor, Packed};
use crate::format::{About, Body, Layout, Out, Packer};
use crate::model::counters::Counters;
use crate::model::offenders::{First, Offender};
use crate::model::policy::{Policy, Verdict};
use crate::model::problems::Problems;
use crate::model::recipe::{Compression, filling};
use crate::model::record::{Remark, SampleRecord, ShardRecord, index_name};
use crate::model::sample::{Field, Sample};
use crate::pack::lookahead::{Content, Fetched, Large, Lookahead};
use crate::plan::budget::{Budget, DECODE_LIMIT_BYTES};
use crate::plan::draft::ShardPlan;
use crate::state::stored::{self as resume, Stored};
use crate::store::{Sink, Source};

/// What packing needs to know and to touch.
pub struct Run<'a> {
    /// Where samples come from.
    pub source: &'a dyn Source,
    /// Where shards go.
    pub sink: &'a dyn Sink,
    /// The plan.
    pub stored: &'a Stored,
    /// What each packer may hold.
    pub budget: Budget,
    /// Cores to keep busy.
    pub cores: usize,
    /// What to do about samples at fault.
    pub policy: Policy,
    /// Samples skipped by earlier runs of this plan.
    pub skipped_before: u64,
    /// Counts what happens.
    pub counters: &'a Counters,
    /// Says when to stop.
    pub stop: &'a Stop,
    /// Takes all samples at fault.
    pub problems: Problems,
}

/// What a run did.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Samples left out of the shards made by this run.
    pub skipped: Vec<Remark>,
    /// Samples at fault that were not skipped: nothing may be published.
    pub refused: Refused,
    /// Samples packed although something about them is odd.
    pub odd: Vec<Remark>,
    /// Samples left out so far, those of shards that could not be finished and of earlier runs too.
    pub skips: u64,
}

/// Samples at fault that were not skipped, by what is to be done about them.
#[derive(Debug, Default)]
pub struct Refused {
    /// Those whose files changed or went after planning.
    pub stale: First<Offender>,
    /// Those that are damaged.
    pub damaged: First<Offender>,
}

impl Refused {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.stale.count() + self.damaged.count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The first of them.
    pub fn iter(&self) -> impl Iterator<Item = &Offender> {
        self.stale.iter().chain(self.damaged.iter())
    }
}

/// State shared by the packers of one run.
struct Shared {
    next: AtomicUsize,
    /// Packers at work.
    active: AtomicUsize,
    failed: AtomicBool,
    skipped: AtomicU64,
    outcome: Mutex<Outcome>,
}

/// Packs the shards of these numbers, several at once.
pub fn pack(run: &Run<'_>, shards: &[usize]) -> Result<Outcome> {
    let jobs = run.budget.jobs.clamp(1, shards.len().max(1));
    let shared = Shared {
        next: AtomicUsize::new(0),
        active: AtomicUsize::new(jobs),
        failed: AtomicBool::new(false),
        skipped: AtomicU64::new(run.skipped_before),
        outcome: Mutex::default(),
    };
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let worker = |_| {
            scope.spawn(|| {
                let result = Worker {
                    run,
                    shards,
                    shared: &shared,
                }
                .work();
                if result.is_err() {
                    shared.failed.store(true, Ordering::Relaxed);
                }
                result
            })
        };
        let threads: Vec<_> = (0..jobs).map(worker).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<()>>| {
            thread
                .join()
                .unwrap_or_else(|_| Err(Error::failed("a packer thread panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    // The error that made the others stop is the one to tell.
    let mut errors: Vec<Error> = results.into_iter().filter_map(Result::err).collect();
    errors.sort_by_key(|error| error.kind() == Kind::Cancelled);
    if let Some(error) = errors.into_iter().next() {
        return Err(error);
    }
    let mut outcome = shared
        .outcome
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    outcome.skips = shared.skipped.into_inner();
    for remarks in [&mut outcome.skipped, &mut outcome.odd] {
        remarks.sort_by(|a, b| a.path.cmp(&b.path));
    }
    Ok(outcome)
}

const JPEG_START: &[u8] = &[0xFF, 0xD8];
const JPEG_END: &[u8] = &[0xFF, 0xD9];

/// How the packing of a shard ended.
enum Attempt {
    /// It is there, its record is not yet.
    Made(Box<ShardRecord>),
    /// Samples at fault that may not be skipped.
    Refused,
    /// Its first bytes say another length than it came to have.
    Resized {
        /// The length before compression.
        bytes: u64,
        /// What was left out.
        skipped: Vec<Remark>,
    },
}

struct Worker<'a> {
    run: &'a Run<'a>,
    shards: &'a [usize],
    shared: &'a Shared,
}

impl Worker<'_> {
    fn work(&self) -> Result<()> {
        let Run { budget, source, .. } = self.run;
        let mut ahead = Lookahead::new(*source, self.samples(), budget.window_bytes)
            .with_tails(self.looks_at_ends());
        while let Some(shard) = ahead.next_shard() {
            self.pack_shard(shard?, &mut ahead)?;
        }
        // With fewer packers left than cores, reading for them is what there is to share.
        if self.shared.active.fetch_sub(1, Ordering::Relaxed) <= self.run.cores {
            source.lend(1);
        }
        Ok(())
    }

    /// The samples of the shards this worker claims, one shard after the other, claimed when their reads can begin.
    fn samples(&self) -> impl Iterator<Item = Result<(usize, Sample)>> {
        let mut shard = 0;
        let mut samples = Vec::new().into_iter();
        std::iter::from_fn(move || {
            loop {
                if let Some(sample) = samples.next() {
                    return Some(Ok((shard, sample)));
                }
                let next = self.shared.next.fetch_add(1, Ordering::Relaxed);
                shard = *self.shards.get(next)?;
                match resume::samples(self.run.sink, self.run.stored, shard) {
                    Ok(list) => samples = list.into_iter(),
                    Err(error) => return Some(Err(error)),
                }
            }
        })
    }

    fn check_stop(&self) -> Result<()> {
        self.run.stop.check()?;
        if self.shared.failed.load(Ordering::Relaxed) {
            return Err(Error::new(
                Kind::Cancelled,
                "stopped because another shard failed",
            ));
        }
        Ok(())
    }

    /// Whether images are looked at without being read whole.
    fn looks_at_ends(&self) -> bool {
        self.run.stored.plan.recipe.validate == Validate::Header
    }

    fn pack_shard(&self, shard: usize, ahead: &mut Lookahead<'_>) -> Result<()> {
        let Run {
            stored,
            sink,
            counters,
            ..
        } = self.run;
        let plan = &stored.plan.shards[shard];
        let mut attempt = self.attempt(plan, plan.samples, plan.bytes, ahead)?;
        if let Attempt::Resized { bytes, skipped } = attempt {
            attempt = self.again(shard, bytes, skipped)?;
        }
        let record = match attempt {
            Attempt::Made(record) => record,
            Attempt::Refused => return Ok(()),
            Attempt::Resized { bytes, .. } => {
                let what = format!(
                    "{}: {bytes} bytes, another length than a moment ago: the data changed, make a new plan",
                    plan.name
                );
                return Err(Error::new(Kind::Source, what));
            }
        };
        sink.put(
            &index_name(&plan.name),
            &record.encode(&stored.plan.names.classes)?,
        )?;
        counters.shard(&plan.name, record.bytes, record.samples.len() as u64);
        let mut outcome = self.outcome();
        outcome.skipped.extend(record.skipped);
        outcome.odd.extend(record.odd);
        Ok(())
    }

    /// Packs a shard whose first bytes say how long it is, now that this is known to be another length than planned.
    fn again(&self, shard: usize, bytes: u64, skipped: Vec<Remark>) -> Result<Attempt> {
        let stored = self.run.stored;
        let plan = &stored.plan.shards[shard];
        let left_out: std::collections::HashSet<&str> =
            skipped.iter().map(|remark| remark.key.as_str()).collect();
        let samples = resume::samples(self.run.sink, stored, shard)?;
        let samples = samples
            .into_iter()
            .filter(|sample| !left_out.contains(sample.key.as_str()));
        let samples: Vec<_> = samples.map(|sample| Ok((shard, sample))).collect();
        let count = samples.len() as u64;
        // The reads of the next shard have the window.
        let mut ahead = Lookahead::new(self.run.source, samples.into_iter(), STREAM_ABOVE_BYTES)
            .with_tails(self.looks_at_ends());
        let mut attempt = self.attempt(plan, count, bytes, &mut ahead)?;
        if let Attempt::Made(record) = &mut attempt {
            record.skipped = skipped;
        }
        Ok(attempt)
    }

    /// Packs so many samples into a shard that is to have so many bytes before compression.
    fn attempt(
        &self,
        plan: &ShardPlan,
        samples: u64,
        bytes: u64,
        ahead: &mut Lookahead<'_>,
    ) -> Result<Attempt> {
        let Run { stored, sink, .. } = self.run;
        let recipe = &stored.plan.recipe;
        let layout = recipe.layout();
        let mut packer = layout.packer(&stored.plan.names)?;
        let digest = Digest::new(sink.create(&plan.name, bytes)?, recipe.sha256);
        let mut out = Compressor::new(&plan.name, digest, recipe.compress, bytes)?;
        let mut record = ShardRecord {
            split: plan.split.clone(),
            plan: stored.digest.clone(),
            ..ShardRecord::empty(&plan.name)
        };
        record.samples.reserve_exact(plan.samples as usize);
        let mut refused = false;
        for _ in 0..samples {
            self.check_stop()?;
            let Some(fetched) = ahead.fetch() else {
                return Err(Error::failed(format!(
                    "{}: fewer samples than planned",
                    plan.name
                )));
            };
            let mut fetched = fetched?;
            let bytes: u64 = fetched.sample.fields.iter().map(|field| field.size).sum();
            let looked = check_size(layout.as_ref(), &fetched.sample)
                .and_then(|()| self.look(&mut fetched))
                .and_then(|image| self.check_fit(layout.as_ref(), &fetched, image));
            match looked {
                Ok(image) if !refused => {
                    out.begin_sample(bytes)?;
                    let row =
                        self.append(packer.as_mut(), &mut out, &plan.split, &mut fetched, image)?;
                    record.odd.extend(odd(&fetched.sample, image));
                    record.samples.push(row);
                }
                Ok(_) => {}
                Err(error) => refused |= self.judge(&fetched.sample, error, &mut record)?,
            }
            ahead.recycle(fetched.contents);
            self.run.counters.sample(bytes);
        }
        if refused {
            return Ok(Attempt::Refused);
        }
        packer.finish(&mut out)?;
        if out.broke_pledge() {
            return Ok(Attempt::Resized {
                bytes: out.position(),
                skipped: record.skipped,
            });
        }
        let Packed {
            inner: writer,
            sum,
            unpacked_bytes,
            frames,
        } = out.finish()?;
        writer.commit(sum.crc32)?;
        record.bytes = sum.bytes;
        record.unpacked_bytes = (recipe.compress != Compression::None).then_some(unpacked_bytes);
        record.crc32 = sum.crc32;
        record.sha256 = sum.sha256;
        for late in packer.late() {
            record.samples[late.sample].fields.push(late.field);
        }
        if let Some(frames) = frames {
            frames.enter(&mut record);
        }
        Ok(Attempt::Made(Box::new(record)))
    }

    fn outcome(&self) -> std::sync::MutexGuard<'_, Outcome> {
        self.shared
            .outcome
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// True when the shard cannot be published any more.
    fn judge(&self, sample: &Sample, error: Error, record: &mut ShardRecord) -> Result<bool> {
        // Counted before it is judged, so that packers together never skip one too many.
        let skipped = self.shared.skipped.fetch_add(1, Ordering::Relaxed);
        let verdict = self.run.policy.judge(&error, skipped);
        if verdict != Verdict::Skip {
            self.shared.skipped.fetch_sub(1, Ordering::Relaxed);
        }
        let path = sample.path();
        let reason = error.to_string();
        // The list of offenders names the path itself.
        let reason = match reason.strip_prefix(&format!("{path}: ")) {
            Some(rest) => rest.to_owned(),
            None => reason,
        };
        let remark = Remark {
            key: sample.key.clone(),
            path,
            reason,
        };
        match verdict {
            Verdict::Abort => Err(error),
            Verdict::Skip => {
                self.run.counters.skip();
                record.skipped.push(remark);
                Ok(false)
            }
            Verdict::Refuse => {
                self.run.counters.refuse();
                let Remark { path, reason, .. } = remark;
                let refused = &mut self.outcome().refused;
                let (what, list) = match error.kind() {
                    Kind::Sample => ("damaged", &mut refused.damaged),
                    _ => ("changed or gone after planning", &mut refused.stale),
                };
                self.run.problems.tell(what, &path, &reason);
                list.push(Offender { path, reason });
                Ok(true)
            }
        }
    }

    /// Whether the layout has a place for what the sample turned out to be.
    fn check_fit(
        &self,
        layout: &dyn Layout,
        fetched: &Fetched<'_>,
        image: Option<ImageInfo>,
    ) -> Result<Option<ImageInfo>> {
        let refusal = |field: &Field, what: String| {
            Err(Error::new(Kind::Sample, format!("{}: {what}", field.path)))
        };
        if let Some(field) = fetched.sample.image()
            && let Err(what) = layout.check_image(image)
        {
            return refusal(field, what);
        }
        for (field, content) in fetched.sample.fields.iter().zip(&fetched.contents).skip(1) {
            if let Ok(Content::Held(bytes)) = content
                && let Err(what) = layout.check_sidecar(&field.name, bytes)
            {
                return refusal(field, what);
            }
        }
        Ok(image)
    }

    /// Looks at what was read: failed reads, and the image itself.
    fn look(&self, fetched: &mut Fetched<'_>) -> Result<Option<ImageInfo>> {
        for content in &mut fetched.contents {
            if content.is_err() {
                // Taken out, so that the error itself is judged.
                return match std::mem::replace(content, Ok(Content::Held(Buffer::default()))) {
                    Err(error) => Err(error),
                    Ok(_) => Ok(None),
                };
            }
        }
        let Some(field) = fetched.sample.image() else {
            return Ok(None);
        };
        let level = self.run.stored.plan.recipe.validate;
        let looked = match fetched.contents.first_mut() {
            Some(Ok(Content::Held(bytes))) => probe(bytes, level, DECODE_LIMIT_BYTES),
            Some(Ok(Content::Large(large))) => look_at_large(large, level)?,
            _ => return Ok(None),
        };
        looked.map_err(|what| Error::new(Kind::Sample, format!("{}: {what}", field.path)))
    }

    fn append(
        &self,
        packer: &mut dyn Packer,
        out: &mut dyn Out,
        split: &str,
        fetched: &mut Fetched<'_>,
        image: Option<ImageInfo>,
    ) -> Result<SampleRecord> {
        let plan = &self.run.stored.plan;
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
        let filled = plan.recipe.filled(&sample.fields, &plan.names);
        bodies.extend(
            filled
                .into_iter()
                .map(|name| (name, Body::new(filling(name)))),
        );
        let about = About::of(sample, split, image, &plan.names);
        let placed = packer.append(out, &about, &mut bodies)?;
        Ok(SampleRecord {
            key: sample.key.clone(),
            label: sample.label,
            source_path: about.path.clone(),
            offset: placed.offset,
            length: placed.length,
            image,
            fields: placed.fields,
            frame: None,
        })
    }
}

/// Looks at an image that is too large to hold with the others. What is seen of it does not depend on how much was read ahead.
fn look_at_large(
    large: &mut Large<'_>,
    level: Validate,
) -> Result<Result<Option<ImageInfo>, String>> {
    let size = large.size();
    match level {
        Validate::None => return Ok(Ok(None)),
        Validate::Decode if size <= DECODE_LIMIT_BYTES => {
            return Ok(probe(large.gather()?, level, DECODE_LIMIT_BYTES));
        }
        Validate::Decode => {
            let what = format!("{size} bytes are too many to decode: use `--validate header`");
            return Ok(Err(what));
        }
        Validate::Header => {}
    }
    let (head, tail) = large.ends()?;
    let head = &head[..head.len().min(HEAD_BYTES)];
    let looked = match probe_ends(head, &tail, size) {
        // Much may follow the end of an image, a film for example.
        Err(_) if head.starts_with(JPEG_START) => {
            // In the head there may be a thumbnail with an end of its own.
            let ended = probe(head, Validate::Header, 0).is_ok();
            let head = head.to_vec();
            match ended || has_jpeg_end(large, HEAD_BYTES)? {
                true => probe_ends(&head, JPEG_END, size),
                false => probe_ends(&head, &tail, size),
            }
        }
        looked => looked,
    };
    large.recycle(tail);
    // Dimensions that lie in the unseen middle are unknown, which is no fault.
    Ok(looked.map(|image| (image.width > 0).then_some(image)))
}

/// Whether a JPEG's end marker is anywhere after its first so many bytes, or across their end; such bytes cannot occur inside of the image
/// data.
fn has_jpeg_end(large: &mut Large<'_>, head: usize) -> Result<bool> {
    let is_end = |bytes: &[u8]| bytes.windows(2).any(|pair| pair == JPEG_END);
    let across = |last: u8, bytes: &[u8]| {
        bytes
            .first()
            .is_some_and(|&first| [last, first] == JPEG_END)
    };
    let mut at = head - 1;
    let mut seen = 0;
    let mut last = 0;
    // What is read ahead already is packed later all the same.
    for number in 0.. {
        let Some(piece) = large.peek(number)? else {
            break;
        };
        if across(last, piece) || is_end(piece.get(at..).unwrap_or_default()) {
            return Ok(true);
        }
        last = piece.last().copied().unwrap_or_default();
        seen += piece.len() as u64;
        at = 0;
    }
    let size = large.size();
    while seen < size {
        let piece = large.range(seen, (size - seen).min(HEAD_BYTES as u64))?;
        if across(last, &piece) || is_end(&piece) {
            return Ok(true);
        }
        last = piece.last().copied().unwrap_or_default();
        seen += piece.len() as u64;
        large.recycle(piece);
    }
    Ok(false)
}

/// Whether the layout has a place for files of these sizes. One that has not was left in the plan to be skipped.
fn check_size(layout: &dyn Layout, sample: &Sample) -> Result<()> {
    let limits = layout.limits();
    for (at, field) in sample.fields.iter().enumerate() {
        if let Some(what) = limits.refuse(field.size, at == 0) {
            return Err(Error::new(Kind::Sample, format!("{}: {what}", field.path)));
        }
    }
    let all = sample.fields.iter().map(|field| field.size);
    match (limits.refuse_together(all.sum()), sample.image()) {
        (Some(what), Some(image)) => {
            Err(Error::new(Kind::Sample, format!("{}: {what}", image.path)))
        }
        _ => Ok(()),
    }
}

/// An image that is another format than its name says is packed as it is, and told.
pub fn odd(sample: &Sample, image: Option<ImageInfo>) -> Option<Remark> {
    let field = sample.image()?;
    let actual = image?.format;
    let named = ImageFormat::of_extension(&field.name)?;
    (actual != named).then(|| Remark {
        key: sample.key.clone(),
        path: sample.path(),
        reason: format!("is {}, named as {}", actual.name(), named.name()),
    })
}
