//! The plan as a stored object, the claim on a destination, and which shards are already done.
//!
//! `_shardpack/claims/00000001.json` names the first plan, and each later one that goes on from what is published has the next number. A
//! claim is put if absent, so of two different plans for one number exactly one wins; and no two plans write shards of one name, so the
//! workers of a plan that was given up do no harm. `_shardpack/plan/ID/` holds `plan.json` and the samples, one zstd frame a shard, so that a
//! worker reads only its part: `zstd -dc samples.jsonl.zst` shows them all.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read};

use bytes::Bytes;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::base::checksum::crc_text;
use crate::base::error::{Error, Kind, Result, unless_damaged};
use crate::base::text::{hex, show};
use crate::base::units::{MOST_BYTES, MOST_SAMPLES, are_sane};
use crate::base::version;
use crate::model::manifest::{STATE, snapshot_name};
use crate::model::name::check_name;
use crate::model::record::{FOOTER_GUESS, Footer, index_name};
use crate::model::sample::Sample;
use crate::plan::draft::{Draft, PLAN_KIND, Plan, ShardPlan, parse_line};
use crate::state::published;
use crate::store::{Sink, at_once};

/// Where claims lie.
const CLAIMS: &str = "_shardpack/claims";
/// Value of a claim's `kind`.
const CLAIM_KIND: &str = "shardpack-claim";
/// Last part of [`source_name`].
const SOURCE_FILE: &str = "source";
/// Numbers of plans and shards that can be: adding to them does not overflow.
const GENERATIONS: std::ops::RangeInclusive<u64> = 0..=u64::MAX / 2;
/// Plans that are read at once: there is one a night, and each can be some megabytes.
const PLANS_AT_ONCE: usize = 8;
/// Fast, and names compress well at any level.
const LEVEL: i32 = 1;
/// The largest window, as a power of two, that is unpacked: twice what that level makes of the longest list.
const WINDOW_LOG: u32 = 20;
/// Memory of unpacking a list, whatever its length: window, tables and buffers.
const UNPACKER_BYTES: u64 = 2 << 20;

/// A plan with the places of its shards' samples.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stored {
    /// [`Plan::id`]: what the plan is stored and claimed under.
    pub id: String,
    /// [`Plan::digest`]: what everything that is made from the plan carries.
    pub digest: String,
    /// The plan.
    pub plan: Plan,
    /// For each shard: offset and length of its frame.
    pub frames: Vec<[u64; 2]>,
    /// CRC-32 of all frames, eight hexadecimal digits; plans of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_crc32: Option<String>,
    /// Whether this run claimed the destination: then nothing in it is of this plan, whatever it looks like.
    #[serde(skip)]
    pub fresh: bool,
    /// Shards whose files have other versions by now, with those.
    #[serde(skip)]
    pub revised: HashMap<usize, Vec<Sample>>,
}

impl Stored {
    /// Length of the list of samples.
    pub fn samples_bytes(&self) -> u64 {
        let ends = self.frames.iter();
        let ends = ends.map(|[offset, length]| offset.saturating_add(*length));
        ends.max().unwrap_or(0)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Claim {
    kind: String,
    plan_id: PlanId,
}

/// The id of a plan, which is the name of its directory: 64 hexadecimal digits.
#[derive(Debug, Serialize, Deserialize)]
#[serde(try_from = "String")]
struct PlanId(String);

impl TryFrom<String> for PlanId {
    type Error = String;

    fn try_from(id: String) -> Result<Self, String> {
        match is_id(&id) {
            true => Ok(Self(id)),
            false => Err(format!("`{}` is no id of a plan", show(id.as_bytes()))),
        }
    }
}

fn plan_name(id: &str) -> String {
    format!("{STATE}/plan/{id}/plan.json")
}

/// Name of the list of samples of the plan of this id.
pub fn samples_name(id: &str) -> String {
    format!("{STATE}/plan/{id}/samples.jsonl.zst")
}

fn json<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let mut text =
        serde_json::to_vec_pretty(value).map_err(|error| Error::failed(error.to_string()))?;
    text.push(b'\n');
    Ok(text)
}

/// Name of the claim of a generation.
pub fn claim_name(generation: u64) -> String {
    format!("{CLAIMS}/{generation:08}.json")
}

/// The id of the plan that an object is a part of, and which part.
pub fn plan_file(name: &str) -> Option<(&str, Part)> {
    let (id, file) = name
        .strip_prefix(STATE)?
        .strip_prefix("/plan/")?
        .split_once('/')?;
    let part = match file {
        "plan.json" => Part::Plan,
        "samples.jsonl.zst" => Part::Samples,
        SOURCE_FILE => Part::Source,
        _ => return None,
    };
    is_id(id).then_some((id, part))
}

/// What a stored plan consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The plan itself.
    Plan,
    /// Its samples.
    Samples,
    /// Where the source was.
    Source,
}

fn is_id(id: &str) -> bool {
    id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Name of the object that says where the source was at planning time, for `pack` without `--source`. Not part of the plan: it says
/// nothing of the data.
pub fn source_name(id: &str) -> String {
    format!("{STATE}/plan/{id}/{SOURCE_FILE}")
}

/// The generations that are claimed, in order.
pub fn generations(sink: &dyn Sink) -> Result<Vec<u64>> {
    let objects = sink.list(CLAIMS)?;
    Ok(generations_of(
        objects.iter().map(|(name, _)| name.as_str()),
    ))
}

/// The generations whose claims are among these names, in order.
pub fn generations_of<'a>(names: impl Iterator<Item = &'a str>) -> Vec<u64> {
    let number = |name: &str| {
        let number = name.strip_prefix(CLAIMS)?.strip_prefix('/')?;
        number.strip_suffix(".json")?.parse().ok()
    };
    let mut numbers: Vec<u64> = names.filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// The stored plan of a generation, if it is claimed.
pub fn of_generation(sink: &dyn Sink, generation: u64) -> Result<Option<Stored>> {
    claim(sink, generation)?
        .map(|id| load_id(sink, &id))
        .transpose()
}

/// The id of the plan that owns the destination, if one does: the one claimed last.
pub fn claimed(sink: &dyn Sink) -> Result<Option<String>> {
    match generations(sink)?.last() {
        Some(generation) => claim(sink, *generation),
        None => Ok(None),
    }
}

/// The id of the plan of a generation, if it is claimed.
pub fn claim(sink: &dyn Sink, generation: u64) -> Result<Option<String>> {
    let name = claim_name(generation);
    let Some(text) = sink.get(&name)? else {
        return Ok(None);
    };
    let place = format!("{sink}/{name}");
    version::CLAIM.check(&place, &text)?;
    let bad = |what: String| Error::new(Kind::Damage, format!("{place}: {what}"));
    let claim: Claim =
        serde_json::from_slice(&text).map_err(|error| bad(format!("not a claim: {error}")))?;
    if claim.kind != CLAIM_KIND {
        return Err(bad(format!(
            "not a claim: `{}`",
            show(claim.kind.as_bytes())
        )));
    }
    Ok(Some(claim.plan_id.0))
}

/// The stored plans with these digests, by digest: of those that were claimed, the newest first. One that is gone is not in it.
pub fn plans(sink: &dyn Sink, digests: &HashSet<&str>) -> Result<HashMap<String, Stored>> {
    let mut generations = generations(sink)?;
    generations.reverse();
    let read = |generation: &u64| -> Result<Option<Stored>> {
        let Some(id) = claim(sink, *generation)? else {
            return Ok(None);
        };
        let stored = unless_damaged(load_id(sink, &id))?;
        Ok(stored.filter(|stored| digests.contains(stored.digest.as_str())))
    };
    let depth = sink.requests().clamp(1, PLANS_AT_ONCE);
    let mut found = HashMap::new();
    for some in generations.chunks(depth) {
        if found.len() == digests.len() {
            break;
        }
        for stored in at_once(depth, some, read)?.into_iter().flatten() {
            found.entry(stored.digest.clone()).or_insert(stored);
        }
    }
    Ok(found)
}

/// Refuses a destination that a later version of this program wrote to, before anything in it is changed: by its manifest, by the snapshot
/// after that, and by the plan that was claimed last, published or not. What is damaged there is left to those who need it.
pub fn refuse_later(sink: &dyn Sink) -> Result<()> {
    let manifest = unless_damaged(published::load(sink))?.flatten();
    refuse_later_snapshot(sink, manifest.map_or(0, |manifest| manifest.snapshot))?;
    unless_damaged(stored(sink))?;
    Ok(())
}

/// Refuses a snapshot of a later version right after the one that is published, 0 if none is: whoever put it has not got to the manifest yet.
pub fn refuse_later_snapshot(sink: &dyn Sink, published: u64) -> Result<()> {
    let name = snapshot_name(published + 1);
    match sink.get(&name)? {
        Some(text) => version::MANIFEST.check(&format!("{sink}/{name}"), &text),
        None => Ok(()),
    }
}

/// Refuses a destination that holds something else than a dataset of ours or nothing.
pub fn check_ours(sink: &dyn Sink) -> Result<()> {
    if !sink.list(STATE)?.is_empty() {
        return Ok(());
    }
    let found = sink.list("")?;
    // Another run may have begun in between.
    if found
        .iter()
        .any(|(name, _)| name.split('/').next() == Some(STATE))
    {
        return Ok(());
    }
    match found.first() {
        Some((name, _)) => Err(Error::usage(format!(
            "{sink} is not empty and not a dataset of shardpack (it holds `{name}`{}): choose an empty or new destination",
            match found.len() {
                1 => String::new(),
                n => format!(" and {} more", n - 1),
            }
        ))),
        None => Ok(()),
    }
}

fn conflict(sink: &dyn Sink, owner: &str, ours: &str) -> Error {
    let short = |id: &str| id.chars().take(12).collect::<String>();
    Error::new(
        Kind::Conflict,
        format!(
            "{sink} belongs to another plan ({}, this one is {}): the source or the options differ; give the same ones to go on, \
             choose another destination, or start over in this one with `--full`",
            short(owner),
            short(ours)
        ),
    )
}

/// Makes this draft the destination's plan of its generation and stores it; if another plan is, that is a conflict.
pub fn store(sink: &dyn Sink, draft: &Draft) -> Result<Stored> {
    let generation = draft.plan.generation;
    let claimed = claim(sink, generation)?;
    if let Some(owner) = &claimed {
        if *owner != draft.id {
            return Err(conflict(sink, owner, &draft.id));
        }
        if let Some(stored) = unless_damaged(load_id(sink, owner))? {
            check_exclusive(sink, &stored)?;
            return Ok(stored);
        }
    }
    // The plan is in place before the claim names it.
    let mut stored = put_plan(sink, draft)?;
    check_exclusive(sink, &stored)?;
    let text = json(&Claim {
        kind: CLAIM_KIND.to_owned(),
        plan_id: PlanId(draft.id.clone()),
    })?;
    let ours = sink.put_if_absent(&claim_name(generation), &text)?;
    if !ours {
        let owner = claim(sink, generation)?.unwrap_or_default();
        if owner != draft.id {
            return Err(conflict(sink, &owner, &draft.id));
        }
    }
    // A claim that was there already was made by a run that may have packed shards since.
    stored.fresh = ours && claimed.is_none();
    Ok(stored)
}

/// Stores a draft that has the digest of what is published, beside the plan that is claimed: the same files with other versions.
pub fn store_beside(sink: &dyn Sink, draft: &Draft) -> Result<Stored> {
    if let Some(stored) = unless_damaged(load_id(sink, &draft.id))? {
        return Ok(stored);
    }
    put_plan(sink, draft)
}

/// Writes a draft's plan and samples.
fn put_plan(sink: &dyn Sink, draft: &Draft) -> Result<Stored> {
    let (frames, crc32) = store_samples(sink, draft)?;
    let stored = Stored {
        id: draft.id.clone(),
        digest: draft.digest.clone(),
        plan: draft.plan.clone(),
        frames,
        samples_crc32: Some(crc_text(crc32)),
        fresh: false,
        revised: HashMap::new(),
    };
    sink.put(&plan_name(&draft.id), &json(&stored)?)?;
    Ok(stored)
}

/// Refuses a destination where two plans could both believe to have won. The plan is stored already.
pub fn check_exclusive(sink: &dyn Sink, stored: &Stored) -> Result<()> {
    sink.check_exclusive(&plan_name(&stored.id), &json(stored)?)
}

/// Writes the samples of a draft; gives the places of the frames and the CRC-32 of all of them.
fn store_samples(sink: &dyn Sink, draft: &Draft) -> Result<(Vec<[u64; 2]>, u32)> {
    let name = samples_name(&draft.id);
    // About a tenth of the lines; only a hint.
    let lines: u64 = draft.plan.shards.iter().map(|s| s.listing_bytes).sum();
    let mut writer = sink.create(&name, lines / 10)?;
    let mut crc = crc32fast::Hasher::new();
    let mut frames = Vec::with_capacity(draft.plan.shards.len());
    let mut offset = 0;
    // Compressed as they are made: the lines of all samples would be several times the listing.
    let pack = |shard: usize| {
        let bytes = draft.plan.shards[shard].listing_bytes;
        frame(bytes, |out| draft.write_lines(shard, out))
    };
    let shards: Vec<usize> = (0..draft.plan.shards.len()).collect();
    for some in shards.chunks(rayon::current_num_threads()) {
        let packed: Vec<std::io::Result<Vec<u8>>> =
            some.par_iter().map(|&shard| pack(shard)).collect();
        for frame in packed {
            let frame = frame.map_err(|error| Error::io(&name, error))?;
            writer
                .write_all(&frame)
                .map_err(|error| Error::io(&name, error))?;
            crc.update(&frame);
            frames.push([offset, frame.len() as u64]);
            offset += frame.len() as u64;
        }
    }
    let crc32 = crc.finalize();
    writer.commit(crc32)?;
    Ok((frames, crc32))
}

/// A frame of so many bytes of lines.
fn frame(
    bytes: u64,
    lines: impl FnOnce(&mut zstd::stream::Encoder<'_, Vec<u8>>) -> std::io::Result<()>,
) -> std::io::Result<Vec<u8>> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), LEVEL)?;
    encoder.set_pledged_src_size(Some(bytes))?;
    lines(&mut encoder)?;
    encoder.finish()
}

/// Writes the list of samples of a stored plan again, from the lines that `lines` gives of each shard; false, and nothing is written,
/// where it gives none, or where the list does not come out as it was: another version may have compressed it otherwise.
pub fn put_samples(
    sink: &dyn Sink,
    stored: &Stored,
    mut lines: impl FnMut(usize) -> Result<Option<Vec<u8>>>,
) -> Result<bool> {
    let name = samples_name(&stored.id);
    let failed = |error| Error::io(&name, error);
    let mut writer = sink.create(&name, stored.samples_bytes())?;
    let mut crc = crc32fast::Hasher::new();
    let mut at = 0;
    for (shard, [offset, length]) in stored.frames.iter().enumerate() {
        let Some(lines) = lines(shard)? else {
            return Ok(false);
        };
        let frame = frame(lines.len() as u64, |out| {
            std::io::Write::write_all(out, &lines)
        })
        .map_err(failed)?;
        if (at, frame.len() as u64) != (*offset, *length) {
            return Ok(false);
        }
        writer.write_all(&frame).map_err(failed)?;
        crc.update(&frame);
        at += frame.len() as u64;
    }
    let crc32 = crc.finalize();
    let same = stored.samples_crc32.as_ref();
    if same.is_some_and(|said| *said != crc_text(crc32)) {
        return Ok(false);
    }
    writer.commit(crc32)?;
    Ok(true)
}

/// Names of the shards, and of their indexes, of every plan stored in the destination; a plan that cannot be read names none.
pub fn stored_names(sink: &dyn Sink) -> Result<HashSet<String>> {
    let mut names = HashSet::new();
    for (name, _) in sink.list(&format!("{STATE}/plan"))? {
        if name.ends_with("/plan.json")
            && let Some(text) = sink.get(&name)?
        {
            version::PLAN.check(&format!("{sink}/{name}"), &text)?;
            let stored = serde_json::from_slice::<Stored>(&text).ok();
            for shard in stored.into_iter().flat_map(|stored| stored.plan.shards) {
                names.insert(index_name(&shard.name));
                names.insert(shard.name.into());
            }
        }
    }
    Ok(names)
}

/// The plan of the destination, if one is claimed for it.
pub fn stored(sink: &dyn Sink) -> Result<Option<Stored>> {
    claimed(sink)?.map(|id| load_id(sink, &id)).transpose()
}

/// The plan of the destination, or an error that says how to make one.
pub fn load(sink: &dyn Sink) -> Result<Stored> {
    stored(sink)?.ok_or_else(|| {
        Error::usage(format!(
            "{sink} holds no plan: make one with `shardpack plan SRC {sink}`"
        ))
    })
}

/// The stored plan of this id; one that is missing or unsound is damage.
pub fn load_id(sink: &dyn Sink, id: &str) -> Result<Stored> {
    let name = plan_name(id);
    let bad = |what: &str| {
        Error::new(
            Kind::Damage,
            format!("{sink}/{name}: {what}: make the plan again"),
        )
    };
    let text = sink.get(&name)?.ok_or_else(|| bad("missing"))?;
    version::PLAN.check(&format!("{sink}/{name}"), &text)?;
    let stored: Stored =
        serde_json::from_slice(&text).map_err(|error| bad(&format!("not a plan: {error}")))?;
    let plan = &stored.plan;
    let sound = plan.kind == PLAN_KIND
        && plan.version == 1
        && stored.id == id
        && plan.id() == id
        && stored.digest == plan.digest()
        && GENERATIONS.contains(&plan.generation)
        && plan
            .numbers
            .values()
            .all(|number| GENERATIONS.contains(number))
        && stored.frames.len() == plan.shards.len()
        && plan.shards.iter().all(is_sound)
        && are_sane(plan.shards.iter().map(|shard| shard.samples), MOST_SAMPLES)
        && are_sane(plan.shards.iter().flat_map(sizes), MOST_BYTES);
    if sound {
        Ok(stored)
    } else {
        Err(bad("its content does not match its id"))
    }
}

/// Whether a plan may name such a shard: where shards lie.
fn is_sound(shard: &ShardPlan) -> bool {
    shard.name.starts_with("data/") && check_name(&shard.split).is_ok()
}

fn sizes(shard: &ShardPlan) -> [u64; 3] {
    [shard.bytes, shard.source_bytes, shard.listing_bytes]
}

/// The samples of one shard of the plan.
pub fn samples(sink: &dyn Sink, stored: &Stored, shard: usize) -> Result<Vec<Sample>> {
    let plan = &stored.plan.shards[shard];
    // Each takes a line, of which no shorter one can be.
    let most = plan.samples.min(plan.listing_bytes / 32);
    let mut samples = Vec::with_capacity(usize::try_from(most).unwrap_or(0));
    each_sample(sink, stored, shard, |sample| samples.push(sample))?;
    Ok(samples)
}

/// Memory in bytes that [`each_sample`] takes for a shard, besides one sample.
pub fn list_bytes(stored: &Stored, shard: usize) -> u64 {
    let [_, length] = stored.frames[shard];
    length + UNPACKER_BYTES
}

/// Shows the samples of one shard of the plan one after the other, without holding them all.
///
/// # Errors
///
/// What was shown counts only if this succeeds: that a list is damaged may be seen at its end.
pub fn each_sample(
    sink: &dyn Sink,
    stored: &Stored,
    shard: usize,
    mut visit: impl FnMut(Sample),
) -> Result<()> {
    if let Some(samples) = stored.revised.get(&shard) {
        samples.iter().cloned().for_each(visit);
        return Ok(());
    }
    let name = samples_name(&stored.id);
    let plan = &stored.plan.shards[shard];
    let mut count = 0;
    let mut unreadable = None;
    each_line(sink, stored, shard, |line| match parse_line(&name, line) {
        Ok(sample) => {
            count += 1;
            visit(sample);
        }
        // Most likely damage, which the end of the list says for certain.
        Err(error) => _ = unreadable.get_or_insert(error),
    })?;
    if let Some(error) = unreadable {
        return Err(error);
    }
    match count == plan.samples {
        true => Ok(()),
        false => Err(Error::new(
            Kind::Damage,
            format!(
                "{sink}/{name}: {count} samples are listed for {}, planned are {}: make the plan again",
                plan.name, plan.samples
            ),
        )),
    }
}

/// Whether these are the lines that a shard of the plan was planned with.
pub fn are_planned(plan: &ShardPlan, lines: &[u8]) -> bool {
    use sha2::Digest;
    hex(&sha2::Sha256::digest(lines)) == plan.listing
}

/// The lines of the samples of one shard of the plan; others than were planned are damage.
pub fn lines(sink: &dyn Sink, stored: &Stored, shard: usize) -> Result<Vec<u8>> {
    let mut lines = Vec::new();
    each_line(sink, stored, shard, |line| lines.extend_from_slice(line))?;
    Ok(lines)
}

/// Shows them one after the other, each with its end, unpacked as they are read.
///
/// # Errors
///
/// That they are others than were planned is seen at their end: what was shown counts only if this succeeds.
pub fn each_line(
    sink: &dyn Sink,
    stored: &Stored,
    shard: usize,
    mut visit: impl FnMut(&[u8]),
) -> Result<()> {
    use sha2::Digest;
    let name = samples_name(&stored.id);
    let [offset, length] = stored.frames[shard];
    let plan = &stored.plan.shards[shard];
    let bad = |what: String| {
        Error::new(
            Kind::Damage,
            format!("{sink}/{name}: {what}: make the plan again"),
        )
    };
    let length = usize::try_from(length).map_err(|_| bad("impossible sizes".to_owned()))?;
    let frame: Bytes = sink.range(&name, offset, length)?;
    let unpacker = zstd::stream::Decoder::with_buffer(&frame[..]).and_then(|mut unpacker| {
        unpacker.window_log_max(WINDOW_LOG)?;
        Ok(unpacker)
    });
    let unpacker = unpacker.map_err(|error| bad(error.to_string()))?;
    // One byte more than planned is enough to see that there is more.
    let mut lines = BufReader::new(unpacker.take(plan.listing_bytes + 1));
    let mut digest = sha2::Sha256::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = lines.read_until(b'\n', &mut line);
        if read.map_err(|error| bad(error.to_string()))? == 0 {
            break;
        }
        digest.update(&line);
        visit(&line);
    }
    match hex(&digest.finalize()) == plan.listing {
        true => Ok(()),
        false => Err(bad(format!(
            "the samples of {} do not match the plan",
            plan.name
        ))),
    }
}

/// The records that exist of these shards under this plan; a shard whose length differs from its record is not done.
pub fn done(sink: &dyn Sink, stored: &Stored, shards: &[usize]) -> Result<Vec<Option<Footer>>> {
    if stored.fresh {
        return Ok(vec![None; shards.len()]);
    }
    let read = |name: &str, size| Ok((footer(sink, name, size)?, ()));
    let records = records(sink, stored, shards, sink.requests(), read)?;
    let footer = |record: Option<(Footer, ())>| record.map(|(footer, ())| footer);
    Ok(records.into_iter().map(footer).collect())
}

/// The same with what `read` makes of each index file, given its name and size; so many at once.
pub fn records<T: Send>(
    sink: &dyn Sink,
    stored: &Stored,
    shards: &[usize],
    depth: usize,
    read: impl Fn(&str, u64) -> Result<(Footer, T)> + Sync,
) -> Result<Vec<Option<(Footer, T)>>> {
    let lists = at_once(sink.requests(), &["data", "index"], |prefix| {
        sink.list(prefix)
    })?;
    let mut sizes = lists
        .into_iter()
        .map(|list| list.into_iter().collect::<HashMap<_, _>>());
    let (data, indexes) = (
        sizes.next().unwrap_or_default(),
        sizes.next().unwrap_or_default(),
    );
    let look = |shard: &usize| -> Result<Option<(Footer, T)>> {
        let shard = &stored.plan.shards[*shard];
        let name = index_name(&shard.name);
        let Some(size) = indexes.get(&name) else {
            return Ok(None);
        };
        let (footer, made) = match read(&name, *size) {
            // A record that cannot be read is as good as none: the shard is packed again.
            Err(error) if error.kind() == Kind::Damage => return Ok(None),
            record => record?,
        };
        let ours = footer.plan == stored.digest && footer.shard == shard.name;
        let whole = data.get(shard.name.as_str()) == Some(&footer.bytes);
        Ok((ours && whole).then_some((footer, made)))
    };
    at_once(depth, shards, look)
}

/// Names of the plan's shards that have no record yet, by one listing and without reading any.
pub fn unpacked(sink: &dyn Sink, stored: &Stored) -> Result<Vec<String>> {
    let there: HashSet<String> = sink
        .list("index")?
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let names = stored.plan.shards.iter().map(|shard| &shard.name);
    let unpacked = names.filter(|name| !there.contains(&index_name(name)));
    Ok(unpacked.map(ToString::to_string).collect())
}

/// The footer of an index of `size` bytes, by reading its end.
pub fn footer(sink: &dyn Sink, name: &str, size: u64) -> Result<Footer> {
    let mut length = FOOTER_GUESS.min(size);
    for _ in 0..3 {
        let tail = sink.range(name, size - length, length as usize)?;
        match Footer::decode(name, &tail, size)? {
            Ok(footer) => return Ok(footer),
            Err(needed) => length = needed,
        }
    }
    Err(Error::new(
        Kind::Damage,
        format!("{name}: not a readable index: its footer cannot be found"),
    ))
}
