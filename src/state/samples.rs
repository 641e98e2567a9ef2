//! The lists of samples of a stored plan: `samples.jsonl.zst`, one zstd frame of JSON lines a shard; `zstd -dc` shows them all.

use std::io::{BufRead, BufReader, Read, Write};

use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use crate::base::checksum::crc_text;
use crate::base::error::{Error, Kind, Result};
use crate::base::text::hex;
use crate::model::sample::Sample;
use crate::plan::draft::Draft;
use crate::plan::lines::parse_line;
use crate::plan::value::ShardPlan;
use crate::state::names::samples_name;
use crate::state::plans::Stored;
use crate::store::Sink;

/// Level of zstd: fast, and names compress well at any.
const LEVEL: i32 = 1;

/// The largest window, as a power of two, that is unpacked: twice what that level makes of the longest list.
const WINDOW_LOG: u32 = 20;

/// Memory of unpacking a list, whatever its length: window, tables and buffers.
const UNPACKER_BYTES: u64 = 2 << 20;

/// The samples of one shard of the plan.
pub(crate) fn samples(sink: &dyn Sink, stored: &Stored, shard: usize) -> Result<Vec<Sample>> {
    let plan = &stored.plan.shards[shard];
    // Each takes a line, of which no shorter one can be.
    let most = plan.samples.min(plan.listing_bytes / 32);
    let mut samples = Vec::with_capacity(usize::try_from(most).unwrap_or(0));
    each_sample(sink, stored, shard, |sample| samples.push(sample))?;
    Ok(samples)
}

/// Memory in bytes that [`each_sample`] takes for a shard, besides one sample.
pub(crate) fn list_bytes(stored: &Stored, shard: usize) -> u64 {
    let [_, length] = stored.frames[shard];
    length + UNPACKER_BYTES
}

/// Shows the samples of one shard of the plan one after the other, without holding them all.
///
/// # Errors
///
/// What was shown counts only if this succeeds: that a list is damaged may be seen at its end.
pub(crate) fn each_sample(
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
pub(crate) fn are_planned(plan: &ShardPlan, lines: &[u8]) -> bool {
    hex(&Sha256::digest(lines)) == plan.listing
}

/// The lines of the samples of one shard of the plan; others than were planned are damage.
pub(crate) fn lines(sink: &dyn Sink, stored: &Stored, shard: usize) -> Result<Vec<u8>> {
    let mut lines = Vec::new();
    each_line(sink, stored, shard, |line| lines.extend_from_slice(line))?;
    Ok(lines)
}

/// Shows the lines of the samples of one shard of the plan one after the other, each with its newline, unpacked as they are read.
///
/// # Errors
///
/// That they are others than were planned is seen at their end: what was shown counts only if this succeeds.
pub(crate) fn each_line(
    sink: &dyn Sink,
    stored: &Stored,
    shard: usize,
    mut visit: impl FnMut(&[u8]),
) -> Result<()> {
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
    let frame = sink.range(&name, offset, length)?;
    let unpacker = zstd::stream::Decoder::with_buffer(&frame[..]).and_then(|mut unpacker| {
        unpacker.window_log_max(WINDOW_LOG)?;
        Ok(unpacker)
    });
    let unpacker = unpacker.map_err(|error| bad(error.to_string()))?;
    // One byte more than planned is enough to see that there is more.
    let mut lines = BufReader::new(unpacker.take(plan.listing_bytes + 1));
    let mut digest = Sha256::new();
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

/// Where the lists of samples of a plan were written.
pub(super) struct WrittenLists {
    /// For each shard: offset and length of its frame.
    pub(super) frames: Vec<[u64; 2]>,
    /// CRC-32 of all frames.
    pub(super) crc32: u32,
}

/// Writes the lists of samples of a draft.
pub(super) fn store_samples(sink: &dyn Sink, draft: &Draft) -> Result<WrittenLists> {
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
    Ok(WrittenLists { frames, crc32 })
}

/// The zstd frame of so many bytes of lines.
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
pub(crate) fn put_samples(
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
        let frame = frame(lines.len() as u64, |out| out.write_all(&lines)).map_err(failed)?;
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
