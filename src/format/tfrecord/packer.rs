//! Writes TFRecord shards. A content is written as it comes, between what protobuf puts around it.

use crc_fast::{CrcAlgorithm, Digest};

use crate::base::error::{Error, Kind, Result};
use crate::format::check::CHECKSUM;
use crate::format::tfrecord::example::{FeatureContent, Parts, TfRecord};
use crate::format::tfrecord::frame::{MAX_EXAMPLE, crc32c, masked};
use crate::format::tfrecord::messages::{FIELD_1, FIELD_2, feature_bytes, list_bytes, open};
use crate::format::{About, Body, Out, Packer, PlacedSample, Spot};
use crate::model::record::FieldRecord;

/// Writes one shard.
pub(super) struct TfRecordPacker<'a> {
    layout: &'a TfRecord,
    /// How many samples it has so far.
    samples: usize,
    /// Bytes between two contents, kept for the next record.
    pending: Vec<u8>,
}

impl<'a> TfRecordPacker<'a> {
    /// Writes records of this layout.
    pub(super) fn new(layout: &'a TfRecord) -> Self {
        Self {
            layout,
            samples: 0,
            pending: Vec::new(),
        }
    }
}

/// A record being written.
struct Record<'p> {
    /// Number of its sample in the shard.
    sample: usize,
    /// Bytes that come before the next content.
    pending: &'p mut Vec<u8>,
    /// How many of them are no data: the record's length and its checksum.
    head_bytes: usize,
    /// Checksum of the data that is written.
    crc: Digest,
}

impl<'p> Record<'p> {
    /// Begins the record of an Example of so many bytes; nothing is written yet.
    fn begin(sample: usize, example_bytes: u64, pending: &'p mut Vec<u8>) -> Self {
        let length = example_bytes.to_le_bytes();
        pending.clear();
        pending.extend(length);
        pending.extend(masked(crc32c(&length)).to_le_bytes());
        Self {
            sample,
            head_bytes: pending.len(),
            pending,
            crc: Digest::new(CrcAlgorithm::Crc32Iscsi),
        }
    }

    fn spot<'f>(&self, what: &'static str, field: &'f str) -> Spot<'f> {
        Spot {
            what,
            sample: Some(self.sample),
            field,
        }
    }

    /// Writes what protobuf puts before the content of a feature: the feature's name, and how long all of it is.
    fn open_content(&mut self, feature: &str, size: u64) {
        open(self.pending, FIELD_1, feature.len() as u64);
        self.pending.extend_from_slice(feature.as_bytes());
        open(self.pending, FIELD_2, feature_bytes(size));
        open(self.pending, FIELD_1, list_bytes(size));
        open(self.pending, FIELD_1, size);
    }

    /// Writes all that is pending.
    fn flush(&mut self, out: &mut dyn Out) -> Result<()> {
        self.crc.update(&self.pending[self.head_bytes..]);
        out.frame(self.spot("features", ""), self.pending)?;
        self.pending.clear();
        self.head_bytes = 0;
        Ok(())
    }

    /// Writes the content of a field after what is pending.
    fn content(
        &mut self,
        out: &mut dyn Out,
        name: &str,
        body: &mut Body<'_>,
    ) -> Result<FieldRecord> {
        self.flush(out)?;
        let (offset, length) = (out.position(), body.size());
        let spot = self.spot("content", name);
        let crc = &mut self.crc;
        let crc32 = out.content(spot, body, &mut |piece| crc.update(piece))?;
        Ok(FieldRecord {
            name: name.to_owned(),
            offset,
            length,
            crc32,
        })
    }

    /// Writes what is pending, and the checksum of the data.
    fn end(mut self, out: &mut dyn Out) -> Result<()> {
        self.flush(out)?;
        let sum = masked(self.crc.finalize() as u32);
        out.frame(self.spot(CHECKSUM, ""), &sum.to_le_bytes())
    }
}

impl Packer for TfRecordPacker<'_> {
    fn append(
        &mut self,
        out: &mut dyn Out,
        about: &About<'_>,
        fields: &mut [(&str, Body<'_>)],
    ) -> Result<PlacedSample> {
        let offset = out.position();
        let sizes: Vec<(&str, u64)> = fields
            .iter()
            .map(|(name, body)| (*name, body.size()))
            .collect();
        let Parts {
            parts,
            features_bytes,
            example_bytes,
        } = self.layout.parts(about, &sizes);
        if example_bytes > MAX_EXAMPLE {
            let what = format!(
                "sample `{}` makes an Example of {example_bytes} bytes, protobuf ends at 2 GiB: leave it out",
                about.key
            );
            return Err(Error::new(Kind::Source, what));
        }
        let mut record = Record::begin(self.samples, example_bytes, &mut self.pending);
        open(record.pending, FIELD_1, features_bytes);
        let mut placed = Vec::with_capacity(fields.len());
        for part in &parts {
            open(record.pending, FIELD_1, part.entry_bytes());
            match part {
                FeatureContent::Made(entry) => record.pending.extend_from_slice(entry),
                FeatureContent::Content {
                    feature,
                    field,
                    size,
                } => {
                    record.open_content(feature, *size);
                    let (name, body) = &mut fields[*field];
                    placed.push(record.content(out, name, body)?);
                }
            }
        }
        record.end(out)?;
        placed.sort_by_key(|field| field.offset);
        self.samples += 1;
        Ok(PlacedSample {
            offset,
            length: out.position() - offset,
            fields: placed,
        })
    }

    fn finish(&mut self, _: &mut dyn Out) -> Result<()> {
        Ok(())
    }
}
