//! What is known of a finished shard: one row a sample, stored as the Parquet index that is also the completion record.
//!
//! The rows are for DuckDB, pandas and polars; the footer's `shardpack` entry says under which plan the shard was made, how
//! long it is, its checksum, and what was skipped. Written only after the shard itself is durable.

mod columns;
mod footer;
mod read;
mod write;

use serde::{Deserialize, Serialize};

use crate::base::image::{ImageInfo, image_field};
use crate::model::recipe::Schema;
use crate::model::sample::SourcePath;

pub(crate) use crate::model::record::footer::{FOOTER_GUESS, Footer};

/// Label of a sample that has none; -1 in the index.
pub(crate) const NO_LABEL: u32 = u32::MAX;

/// A sample's label as a record has it.
pub(crate) fn recorded_label(label: Option<u32>) -> u32 {
    label.unwrap_or(NO_LABEL)
}

/// A record's label as a sample has it.
pub(crate) fn known_label(label: u32) -> Option<u32> {
    (label != NO_LABEL).then_some(label)
}

/// A label as readers of the index know it: -1 for none, as in TFDS.
pub(crate) fn label_number(label: u32) -> i64 {
    if label == NO_LABEL {
        -1
    } else {
        i64::from(label)
    }
}

/// One field of a packed sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldRecord {
    /// Field name.
    pub name: String,
    /// First content byte in the shard.
    pub offset: u64,
    /// Content length in bytes.
    pub length: u64,
    /// CRC-32 of the content.
    pub crc32: u32,
}

impl FieldRecord {
    /// Whether it is the image, whatever its layout calls it.
    pub(crate) fn holds_image(&self) -> bool {
        image_field(self.name.as_bytes()).is_some() || is_image_feature(&self.name)
    }
}

/// Whether a feature of this name holds the image, in either schema of TFRecords.
pub(crate) fn is_image_feature(name: &str) -> bool {
    [Schema::Imagenet, Schema::Tfds]
        .iter()
        .any(|schema| schema.features().0 == name)
}

/// The compressed frames that hold a sample and can be unpacked on their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameRecord {
    /// First byte of the first of them in the shard.
    pub offset: u64,
    /// Bytes of all of them.
    pub length: u64,
    /// Where what they hold begins in the unpacked shard.
    pub start: u64,
}

/// One packed sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleRecord {
    /// Unique over the dataset.
    pub key: String,
    /// Class number, 0-based.
    pub label: u32,
    /// The image's path below the source's root.
    pub source_path: SourcePath,
    /// First byte of the sample in the shard, framing included.
    pub offset: u64,
    /// Bytes from there to the next sample.
    pub length: u64,
    /// What the image's header says, if it was looked at.
    pub image: Option<ImageInfo>,
    /// Its fields in shard order.
    pub fields: Vec<FieldRecord>,
    /// Where to begin reading, in a shard of frames that can be read on their own. All other offsets are in the unpacked shard.
    pub frame: Option<FrameRecord>,
}

impl SampleRecord {
    /// The field that is the image, whatever its layout calls it.
    pub(crate) fn image(&self) -> Option<&FieldRecord> {
        self.fields.iter().find(|field| field.holds_image())
    }
}

/// A sample or file with a remark: why it was skipped, or what is odd about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// Key of the sample.
    pub key: String,
    /// The file concerned.
    pub path: SourcePath,
    /// The reason.
    pub reason: String,
}

/// A finished shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardRecord {
    /// Name of the shard below the destination.
    pub shard: String,
    /// Split it belongs to.
    pub split: String,
    /// Digest of the plan it was made under.
    pub plan: String,
    /// Length of the shard.
    pub bytes: u64,
    /// Length of what is packed in it, when it is compressed.
    pub unpacked_bytes: Option<u64>,
    /// CRC-32 of the shard.
    pub crc32: u32,
    /// SHA-256 of the shard, when asked for.
    pub sha256: Option<String>,
    /// The samples in shard order.
    pub samples: Vec<SampleRecord>,
    /// Planned samples that are not in it.
    pub skipped: Vec<Remark>,
    /// Samples that are in it although something about them is odd.
    pub odd: Vec<Remark>,
}

impl ShardRecord {
    /// A record of nothing yet.
    pub(crate) fn empty(shard: &str) -> Self {
        Self {
            shard: shard.to_owned(),
            split: String::new(),
            plan: String::new(),
            bytes: 0,
            unpacked_bytes: None,
            crc32: 0,
            sha256: None,
            samples: Vec::new(),
            skipped: Vec::new(),
            odd: Vec::new(),
        }
    }

    /// Length of the shard when it is unpacked.
    pub(crate) fn unpacked_bytes(&self) -> u64 {
        self.unpacked_bytes.unwrap_or(self.bytes)
    }
}

/// The index's name for a shard's name: `data/train-00000.tar` → `index/train-00000.parquet`.
pub(crate) fn index_name(shard: &str) -> String {
    let base = shard.rsplit('/').next().unwrap_or(shard);
    let stem = base.split('.').next().unwrap_or(base);
    format!("index/{stem}.parquet")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::base::checksum::crc_text;
    use crate::base::error::Kind;
    use crate::base::image::ImageFormat;
    use crate::model::record::footer::{PARQUET_END, SEAL, footer_length};

    fn record(rows: usize) -> ShardRecord {
        let sample = |i: usize| SampleRecord {
            key: format!("train/cat/{i}"),
            label: if i == 3 { NO_LABEL } else { (i % 3) as u32 },
            source_path: SourcePath::new(if i.is_multiple_of(4) {
                vec![b'x', 0xff, i as u8]
            } else {
                format!("cat/{i}.jpg").into_bytes()
            }),
            offset: i as u64 * 2048,
            length: 2048,
            image: i.is_multiple_of(2).then_some(ImageInfo {
                format: ImageFormat::Jpeg,
                width: 500,
                height: 375,
            }),
            fields: (0..i % 4)
                .map(|f| FieldRecord {
                    name: format!("f{f}"),
                    offset: (i * 2048 + f * 512) as u64,
                    length: 7,
                    crc32: u32::MAX - i as u32,
                })
                .collect(),
            frame: i.is_multiple_of(5).then_some(FrameRecord {
                offset: i as u64,
                length: 70,
                start: i as u64 * 2048,
            }),
        };
        ShardRecord {
            split: "train".into(),
            plan: "abc".into(),
            bytes: 1 << 33,
            crc32: 0xdead_beef,
            sha256: Some("00".into()),
            samples: (0..rows).map(sample).collect(),
            skipped: vec![Remark {
                key: "k".into(),
                path: SourcePath::new("p"),
                reason: "truncated".into(),
            }],
            ..ShardRecord::empty("data/train-00000.tar")
        }
    }

    fn classes() -> Vec<String> {
        ["a", "b", "c"].map(String::from).to_vec()
    }

    #[test]
    fn a_record_survives_its_index_file() {
        for rows in [0, 1, 5, 1000] {
            let record = record(rows);
            let file = Bytes::from(record.encode(&classes()).unwrap());
            assert_eq!(ShardRecord::decode("x", &file).unwrap(), record);
            let keys: Vec<_> = record.samples.iter().map(|s| s.key.clone()).collect();
            assert_eq!(ShardRecord::decode_keys("x", &file).unwrap(), keys);
            assert_eq!(record.encode(&classes()).unwrap(), file, "same bytes again");
        }
    }

    #[test]
    fn an_index_that_was_written_before_it_had_all_columns_is_read_and_made_again() {
        let record = record(9);
        let before = Bytes::from(record.encode_as_before(&classes()).unwrap());
        assert_ne!(before, record.encode(&classes()).unwrap());
        let read = ShardRecord::decode("x", &before).unwrap();
        assert_eq!(read, record);
        assert_eq!(read.encode_as_before(&classes()).unwrap(), before);
    }

    #[test]
    fn the_footer_is_found_from_the_files_end() {
        let record = record(1000);
        let file = Bytes::from(record.encode(&classes()).unwrap());
        let size = file.len() as u64;
        let needed = Footer::decode("x", &file.slice(file.len() - 8..), size)
            .unwrap()
            .unwrap_err();
        let tail = file.slice(file.len() - needed as usize..);
        let footer = Footer::decode("x", &tail, size).unwrap().unwrap();
        assert_eq!(footer, record.footer(&file[..footer.rows_bytes as usize]));
    }

    #[test]
    fn index_names_follow_shard_names() {
        assert_eq!(
            index_name("data/train-00012.tar"),
            "index/train-00012.parquet"
        );
        assert_eq!(
            index_name("data/val-00000-g3.tar.zst"),
            "index/val-00000-g3.parquet"
        );
    }

    /// Makes the checksums of a changed index right again; false where there is no place for them any more.
    fn seal(file: &mut [u8]) -> bool {
        let end = file.len();
        let Some(footer) = footer_length(file).map(|length| length + PARQUET_END) else {
            return false;
        };
        let Some(start) = end.checked_sub(footer + SEAL) else {
            return false;
        };
        let rows = crc_text(crc32fast::hash(&file[..start]));
        let label = b"\"rows_crc32\":\"";
        if let Some(at) = file.windows(label.len()).rposition(|bytes| bytes == label) {
            let at = at + label.len();
            if at + rows.len() <= end {
                file[at..at + rows.len()].copy_from_slice(rows.as_bytes());
            }
        }
        let seal = crc32fast::hash(&file[start + SEAL..]).to_le_bytes();
        file[start..start + SEAL].copy_from_slice(&seal);
        true
    }

    proptest::proptest! {
        #[test]
        fn an_index_made_to_harm_is_damage_or_an_index(
            changes in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), proptest::prelude::any::<u8>()), 1..4),
        ) {
            let mut file = record(20).encode(&classes()).unwrap();
            for (at, byte) in changes {
                let at = at.index(file.len());
                file[at] = byte;
            }
            if seal(&mut file) {
                let file = Bytes::from(file);
                for error in [ShardRecord::decode("x", &file).err(), ShardRecord::decode_keys("x", &file).err()] {
                    proptest::prop_assert!(error.is_none_or(|error| error.kind() == Kind::Damage));
                }
            }
        }

        #[test]
        fn any_bytes_are_no_index(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..600)) {
            ShardRecord::decode("x", &Bytes::from(bytes)).unwrap_err();
        }
    }

    #[test]
    fn any_flipped_bit_and_any_cut_of_an_index_file_is_found() {
        let file = record(20).encode(&classes()).unwrap();
        for at in 0..file.len() {
            for bit in 0..8 {
                let mut flipped = file.clone();
                flipped[at] ^= 1 << bit;
                let error = ShardRecord::decode("x", &Bytes::from(flipped)).unwrap_err();
                assert_eq!(error.kind(), Kind::Damage, "byte {at}, bit {bit}");
            }
            ShardRecord::decode("x", &Bytes::copy_from_slice(&file[..at])).unwrap_err();
        }
    }
}
