//! A shard compared with its record: packed again from the record alone, into an [`Out`] that compares with what is there.
//!
//! Positions follow from the record, so one damaged header never makes the rest unreadable.

use std::io;

use crate::base::checksum::{SCAN_BYTES, Scanner, crc_text};
use crate::base::error::{Error, Result};
use crate::base::text::show;
use crate::format::{About, Body, Finding, Layout, Out, Spot, Watch};
use crate::model::recipe::Names;
use crate::model::record::{FieldRecord, ShardRecord};

/// Reads a shard, unpacked, and compares it with its record to the letter. Damage goes to `watch`; an error is a failed read.
pub(crate) fn check(
    layout: &dyn Layout,
    names: &Names,
    shard: &mut Scanner<'_>,
    record: &ShardRecord,
    watch: &mut dyn Watch,
) -> io::Result<()> {
    let mut comparing = Comparing {
        shard,
        record,
        watch,
        differs: None,
        is_end_known: true,
        end: End::Open,
    };
    let packed = comparing.pack(layout, names);
    match (packed, comparing.end) {
        (_, End::Failed(error)) => Err(error),
        // Told already.
        (_, End::Truncated) => Ok(()),
        (Err(error), End::Open) => {
            let what = format!("its index describes what no shard can hold: {error}");
            watch.finding(Finding::new(&record.shard, what));
            Ok(())
        }
        // Where it should end is not known.
        (Ok(()), End::Open) if !comparing.is_end_known => Ok(()),
        (Ok(()), End::Open) => {
            let at = shard.position();
            let (more, _) = shard.pass(u64::MAX, |_| ())?;
            if more > 0 {
                let what = Finding::new(&record.shard, "bytes after the end").sample(END);
                watch.finding(what.range(at, at + more).values(0, more));
            }
            Ok(())
        }
    }
}

/// What findings call the part of a shard that belongs to no sample.
pub(super) const END: &str = "(end of shard)";

/// Why a comparison is over.
enum End {
    /// It is not.
    Open,
    /// The shard ended before its record does.
    Truncated,
    /// It cannot be read.
    Failed(io::Error),
}

/// Compares what is written to it with a shard.
struct Comparing<'a, 'b> {
    shard: &'a mut Scanner<'b>,
    record: &'a ShardRecord,
    watch: &'a mut dyn Watch,
    /// Sample of which a content was found to differ: a checksum over all of it then does, too.
    differs: Option<usize>,
    /// Whether where the shard ends does not follow from contents that differ.
    is_end_known: bool,
    end: End,
}

impl Comparing<'_, '_> {
    fn pack(&mut self, layout: &dyn Layout, names: &Names) -> Result<()> {
        let record = self.record;
        let mut packer = layout.packer(names)?;
        let generated = layout.generated();
        for (number, row) in record.samples.iter().enumerate() {
            let about = About::recorded(row, &record.split, names);
            let read = |field: &&FieldRecord| !generated.contains(&field.name.as_str());
            let body = |field: &FieldRecord| Body::Recorded {
                size: field.length,
                crc32: field.crc32,
            };
            let mut fields: Vec<(&str, Body<'_>)> = row
                .fields
                .iter()
                .filter(read)
                .map(|field| (field.name.as_str(), body(field)))
                .collect();
            let placed = packer.append(self, &about, &mut fields)?;
            if (row.offset, row.length) != (placed.offset, placed.length) {
                let finding = self.finding(number, "", "index gives another range for the sample");
                self.watch.finding(finding.values(
                    format!("{}+{}", placed.offset, placed.length),
                    format!("{}+{}", row.offset, row.length),
                ));
            }
            let said = match layout.defers() {
                true => placed.fields.len().min(row.fields.len()),
                false => row.fields.len(),
            };
            for at in 0..placed.fields.len().max(said) {
                self.compare_field(number, placed.fields.get(at), row.fields.get(at));
            }
        }
        packer.finish(self)?;
        for late in packer.late() {
            let row = record.samples.get(late.sample);
            let said = row.and_then(|row| {
                row.fields
                    .iter()
                    .find(|field| field.name == late.field.name)
            });
            self.compare_field(late.sample, Some(&late.field), said);
        }
        Ok(())
    }

    /// Compares where a field is with what the index says of it.
    fn compare_field(
        &mut self,
        number: usize,
        there: Option<&FieldRecord>,
        said: Option<&FieldRecord>,
    ) {
        if there == said {
            return;
        }
        let text = |field: Option<&FieldRecord>| match field {
            Some(field) => format!(
                "`{}` at {}+{} with crc32 {}",
                field.name,
                field.offset,
                field.length,
                crc_text(field.crc32)
            ),
            None => "nothing".to_owned(),
        };
        let name = there.or(said).map_or("", |field| field.name.as_str());
        let finding = self.finding(number, name, "index gives another field");
        self.watch.finding(finding.values(text(there), text(said)));
    }

    fn finding(&self, sample: usize, field: &str, what: &str) -> Finding {
        let spot = Spot {
            what: "",
            sample: Some(sample),
            field,
        };
        self.at(spot, what)
    }

    fn at(&self, spot: Spot<'_>, what: &str) -> Finding {
        let finding = Finding::new(&self.record.shard, what);
        let sample = spot
            .sample
            .and_then(|number| self.record.samples.get(number));
        let finding = finding.sample(sample.map_or(END, |sample| sample.key.as_str()));
        match spot.field {
            "" => finding,
            field => finding.field(field),
        }
    }

    /// Ends the comparison where the shard does.
    fn truncated(&mut self, spot: Spot<'_>) -> Error {
        let end = self.shard.position();
        let what = match (spot.sample, spot.field) {
            (None, _) => format!("shard ends inside its {}", spot.what),
            (Some(_), "") => format!("shard ends inside this sample's {}", spot.what),
            (Some(_), _) => format!("shard ends inside this field's {}", spot.what),
        };
        let bytes = |bytes: u64| format!("{bytes} bytes");
        let whole = self.record.unpacked_bytes();
        let finding = self.at(spot, &what).range(end, whole.max(end));
        self.watch.finding(finding.values(bytes(whole), bytes(end)));
        self.end = End::Truncated;
        Error::failed(what)
    }

    fn failed(&mut self, error: io::Error) -> Error {
        let what = Error::failed(error.to_string());
        self.end = End::Failed(error);
        what
    }
}

impl Out for Comparing<'_, '_> {
    fn frame(&mut self, spot: Spot<'_>, bytes: &[u8]) -> Result<()> {
        for expected in bytes.chunks(SCAN_BYTES) {
            let at = self.shard.position();
            let actual = match self.shard.take(expected.len()) {
                Ok(actual) => actual,
                Err(error) => return Err(self.failed(error)),
            };
            if actual.len() < expected.len() {
                return Err(self.truncated(spot));
            }
            if actual != expected && !(spot.what == CHECKSUM && self.differs == spot.sample) {
                let differing = differing(at, expected, actual);
                let finding = self.at(spot, spot.what);
                self.watch.finding(differing(finding));
            }
        }
        Ok(())
    }

    fn content(
        &mut self,
        spot: Spot<'_>,
        body: &mut Body<'_>,
        pass: &mut dyn FnMut(&[u8]),
    ) -> Result<u32> {
        let (size, crc32) = match body {
            Body::Bytes { bytes, crc32 } => {
                self.frame(spot, bytes)?;
                pass(bytes);
                return Ok(*crc32);
            }
            Body::Recorded { size, crc32 } => (*size, *crc32),
            Body::Stream { .. } => return Err(Error::failed("content that was never recorded")),
        };
        let number = spot.sample.unwrap_or(usize::MAX);
        let fields = self.record.samples.get(number).map(|row| &row.fields);
        let index = fields.and_then(|all| all.iter().position(|field| field.name == spot.field));
        let start = self.shard.position();
        let watch = &mut *self.watch;
        let read = self.shard.pass(size, |piece| {
            pass(piece);
            if let Some(index) = index {
                watch.piece(number, index, piece);
            }
        });
        let (read, actual) = match read {
            Ok(read) => read,
            Err(error) => return Err(self.failed(error)),
        };
        if read < size {
            return Err(self.truncated(spot));
        }
        if actual != crc32 {
            let finding = self
                .at(spot, "content, by crc32")
                .range(start, start + read);
            self.watch
                .finding(finding.values(crc_text(crc32), crc_text(actual)));
            self.differs = spot.sample;
        }
        if let Some(index) = index {
            self.watch.field_end(number, index);
        }
        Ok(crc32)
    }

    fn position(&self) -> u64 {
        self.shard.position()
    }

    fn unknown(&mut self, next: usize) -> Result<()> {
        let Some(row) = self.record.samples.get(next) else {
            self.is_end_known = false;
            return Ok(());
        };
        let ahead = row.offset.saturating_sub(self.shard.position());
        match self.shard.pass(ahead, |_| ()) {
            Ok((passed, _)) if passed < ahead => Err(self.truncated(Spot {
                what: "header",
                sample: Some(next),
                field: "",
            })),
            Ok(_) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }
}

/// What layouts call a checksum over a sample, which follows from the rest.
pub(super) const CHECKSUM: &str = "checksum";

/// Where two blocks begin and end to differ, and what is there, to be added to a finding.
fn differing(at: u64, expected: &[u8], actual: &[u8]) -> impl FnOnce(Finding) -> Finding + use<> {
    let differ = |(a, b): (&u8, &u8)| a != b;
    let pairs = || expected.iter().zip(actual);
    let first = pairs().position(differ).unwrap_or(0);
    let last = pairs().rposition(differ).unwrap_or(0);
    let quote = |bytes: &[u8]| format!("\"{}\"", show(&bytes[first..=last.min(first + 31)]));
    let (expected, actual) = (quote(expected), quote(actual));
    move |finding| {
        finding
            .range(at + first as u64, at + last as u64 + 1)
            .values(expected, actual)
    }
}
