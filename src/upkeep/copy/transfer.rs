//! Shards on their way: put together by the server that holds both ends, or through this machine, checked while they pass.
//!
//! A shard is there when its index is: that is written when the shard is durable, as after packing. So a run that goes on reads no shard again
//! that an earlier one copied; where the store keeps a checksum of its own, that is asked for too.

use std::io::{self, BufRead as _, Write};
use std::sync::{Mutex, PoisonError};

use crate::base::checksum::{Digest, crc_from_text, crc_text};
use crate::base::error::{Error, Kind, Result, unless_damaged};
use crate::model::manifest::ShardEntry;
use crate::model::record::Footer;
use crate::state::published::{require_index, sizes_beside_shards};
use crate::store::{Assembled, Sink, StoredChecksum, at_once};
use crate::upkeep::copy::Copy;
use crate::upkeep::copy::target::Target;

/// Bytes that are summed and written at once at most.
const PASSED_BYTES: usize = 1 << 20;

/// Length and CRC-32 of an index file.
pub(super) type IndexSum = (u64, String);

/// How the shards of a copy came to be there.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// Of each, what its index is.
    pub(super) indexes: Vec<IndexSum>,
    /// Those that were there.
    pub there: usize,
    /// Those that the server put together.
    pub assembled: usize,
    /// Those that passed through here.
    pub passed: usize,
    /// Bytes of those.
    pub passed_bytes: u64,
    /// Why the server did not put together what it could have.
    pub cannot: Option<String>,
}

/// What is known of each target where the copy is to be: what its index is, if it is there.
pub(super) fn look(
    run: &Copy<'_>,
    targets: &[Target<'_>],
    plan: &str,
) -> Result<Vec<Option<IndexSum>>> {
    let names = targets.iter().map(|target| target.entry.name.as_str());
    let sizes = sizes_beside_shards(run.to, names)?;
    at_once(run.to.requests(), targets, |target| {
        run.stop.check()?;
        let entry = &target.entry;
        if sizes.get(&entry.name) != Some(&entry.bytes) {
            return Ok(None);
        }
        let Some(file) = run.to.get(&entry.index)? else {
            return Ok(None);
        };
        let sum = (file.len() as u64, crc_text(crc32fast::hash(&file)));
        let is_it = match target.is_joined() {
            false => sum.1 == entry.index_crc32,
            true => unless_damaged(Footer::of_file(&entry.index, &file))?.is_some_and(|footer| {
                (footer.plan.as_str(), &footer.shard) == (plan, &entry.name)
                    && (footer.bytes, &footer.crc32) == (entry.bytes, &entry.crc32)
            }),
        };
        let kept = match is_it {
            true => run.to.stored_checksum(&entry.name)?,
            false => return Ok(None),
        };
        let differs = matches!(kept, StoredChecksum::Crc32(kept) if crc_text(kept) != entry.crc32);
        Ok((!differs).then_some(sum))
    })
}

/// Brings all targets where they are to be that are not there. `there` is what [`look`] saw; `classes` are those of the dataset.
pub(super) fn bring(
    run: &Copy<'_>,
    targets: &[Target<'_>],
    there: Vec<Option<IndexSum>>,
    plan: &str,
    classes: &[String],
) -> Result<Moved> {
    let bringing = Bringing {
        run,
        plan,
        classes,
        damaged: Mutex::default(),
        cannot: Mutex::default(),
    };
    let mut indexes = there;
    let mut moved = Moved {
        there: indexes.iter().flatten().count(),
        ..Moved::default()
    };
    let lacking = |indexes: &[Option<IndexSum>]| -> Vec<usize> {
        (0..indexes.len())
            .filter(|&at| indexes[at].is_none())
            .collect()
    };
    let location = run.from.to_string();
    if run.to.may_assemble(&location) {
        let todo = lacking(&indexes);
        run.begin("copy in the store", targets, &todo, false);
        let made = at_once(run.jobs, &todo, |&at| {
            bringing.assemble(&targets[at], &location)
        })?;
        for (at, sum) in todo.into_iter().zip(made) {
            moved.assembled += usize::from(sum.is_some());
            indexes[at] = sum;
        }
    }
    let todo = lacking(&indexes);
    if !todo.is_empty() {
        run.begin("copy", targets, &todo, true);
        let made = at_once(run.jobs, &todo, |&at| bringing.pass(&targets[at]))?;
        for (at, sum) in todo.into_iter().zip(made) {
            moved.passed += usize::from(sum.is_some());
            moved.passed_bytes += targets[at].entry.bytes;
            indexes[at] = sum;
        }
    }
    let damaged = bringing.damaged.into_inner();
    let damaged = damaged.unwrap_or_else(PoisonError::into_inner);
    if !damaged.is_empty() {
        return Err(run.damage(damaged));
    }
    let cannot = bringing.cannot.into_inner();
    moved.cannot = cannot.unwrap_or_else(PoisonError::into_inner);
    moved.indexes = indexes.into_iter().flatten().collect();
    Ok(moved)
}

/// What the threads of a copy share.
struct Bringing<'a> {
    run: &'a Copy<'a>,
    plan: &'a str,
    classes: &'a [String],
    /// Shards of the source that are not what its manifest says, each with what it is instead.
    damaged: Mutex<Vec<(ShardEntry, String)>>,
    /// Why the server does not put shards together.
    cannot: Mutex<Option<String>>,
}

impl Bringing<'_> {
    /// Has the server put a shard together; `None` where it does not.
    fn assemble(&self, target: &Target<'_>, location: &str) -> Result<Option<IndexSum>> {
        let run = self.run;
        run.stop.check()?;
        let cannot = || self.cannot.lock().unwrap_or_else(PoisonError::into_inner);
        if cannot().is_some() {
            return Ok(None);
        }
        let pieces = target.pieces(location)?;
        let name = &target.entry.name;
        match run.to.assemble(name, &pieces, target.crc32()?) {
            Ok(Assembled::Done) => self.done(target).map(Some),
            Ok(Assembled::Cannot(why)) => {
                cannot().get_or_insert(why);
                Ok(None)
            }
            // Which sample it is, only reading tells.
            Err(error) if error.kind() == Kind::Damage => Ok(None),
            Err(error) => Err(run.explained(error)),
        }
    }

    /// Brings a shard through this machine; `None` where the source's is damaged.
    fn pass(&self, target: &Target<'_>) -> Result<Option<IndexSum>> {
        // What is damaged on its way is not where it is read the second time.
        for is_last in [false, true] {
            let Some((part, found)) = pass_shard(self.run, target)? else {
                return self.done(target).map(Some);
            };
            if is_last {
                let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
                damaged.push((part.clone(), found));
            }
        }
        Ok(None)
    }

    /// Puts the index of a shard that is there.
    fn done(&self, target: &Target<'_>) -> Result<IndexSum> {
        let (run, entry) = (self.run, &target.entry);
        let file = match target.is_joined() {
            false => require_index(target.parts[0], run.from),
            true => target
                .joined_record(run.from, self.plan)
                .and_then(|record| {
                    let file = record.encode(self.classes)?;
                    Ok(file.into())
                }),
        };
        let file = file.map_err(|error| run.explained(error))?;
        run.to.put(&entry.index, &file)?;
        run.counters.samples(entry.samples);
        run.counters.shard(&entry.name, entry.bytes, entry.samples);
        Ok((file.len() as u64, crc_text(crc32fast::hash(&file))))
    }
}

/// Copies a shard; gives the first part of it that is not what the manifest says, with what it is, and then nothing of it is there.
fn pass_shard<'a>(run: &Copy<'_>, target: &Target<'a>) -> Result<Option<(&'a ShardEntry, String)>> {
    let entry = &target.entry;
    let mut out = Digest::new(run.to.create(&entry.name, entry.bytes)?, false);
    for (at, &part) in target.parts.iter().enumerate() {
        let opened = run.from.open(&part.name);
        let mut reader = opened.map_err(|error| run.explained(error))?;
        let (mut left, mut bytes) = (target.bytes_of(at), 0);
        // What is left out at its end is checked too.
        let mut sum = crc32fast::Hasher::new();
        loop {
            run.stop.check()?;
            let piece = match reader.fill_buf() {
                Ok([]) => break,
                Ok(piece) => &piece[..piece.len().min(PASSED_BYTES)],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(run.explained(Error::io(&part.name, error))),
            };
            let n = piece.len();
            let taken = left.min(n as u64) as usize;
            let written = match taken == n {
                // Of a part that goes whole nothing is summed twice.
                true => {
                    let crc32 = crc32fast::hash(piece);
                    sum.combine(&crc32fast::Hasher::new_with_initial_len(crc32, n as u64));
                    out.write_summed(piece, crc32)
                }
                false => {
                    sum.update(piece);
                    out.write_all(&piece[..taken])
                }
            };
            written.map_err(|error| Error::io(format!("{}/{}", run.to, entry.name), error))?;
            reader.consume(n);
            left -= taken as u64;
            bytes += n as u64;
            run.counters.read(n as u64);
            if bytes > part.bytes {
                break;
            }
        }
        let crc32 = sum.finalize();
        if bytes != part.bytes || crc_from_text(&part.crc32) != Some(crc32) {
            let found = match bytes == part.bytes {
                true => format!(
                    "crc32 {}, the manifest says {}",
                    crc_text(crc32),
                    part.crc32
                ),
                false => format!("it has not the {} bytes that the manifest says", part.bytes),
            };
            return Ok(Some((part, found)));
        }
    }
    let (writer, sum) = out.finish();
    if sum.bytes != entry.bytes || crc_text(sum.crc32) != entry.crc32 {
        let what = "what its parts come to is not what was reckoned: this machine's memory is not to be trusted";
        return Err(Error::failed(format!("{}: {what}", entry.name)));
    }
    writer.commit(sum.crc32)?;
    Ok(None)
}

/// Copies an object of which no checksum is known, unless one of its length is there.
pub(super) fn pass_object(from: &dyn Sink, to: &dyn Sink, name: &str, bytes: u64) -> Result<()> {
    let mut out = Digest::new(to.create(name, bytes)?, false);
    let mut reader = from.open(name)?;
    io::copy(&mut reader, &mut out).map_err(|error| Error::io(name, error))?;
    let (writer, sum) = out.finish();
    if sum.bytes != bytes {
        let what = format!(
            "{from}/{name}: {} bytes came of {bytes}: run again",
            sum.bytes
        );
        return Err(Error::new(Kind::Transient, what));
    }
    writer.commit(sum.crc32)
}
