//! TFRecord: one `tf.train.Example` a sample, framed with masked CRC-32C.
//!
//! Features are sorted by name, so the same sample gives the same bytes. A content is written as it comes, between what protobuf puts
//! around it.

mod example;
mod frame;
mod messages;
mod packer;
mod walk;

use std::io::{self, Read};

use crate::base::error::Result;
use crate::base::image::ImageInfo;
use crate::format::tfrecord::frame::{HEAD_BYTES, TAIL_BYTES};
use crate::format::tfrecord::packer::TfRecordPacker;
use crate::format::tfrecord::walk::walk;
use crate::format::{About, Layout, Packer, Visit};
use crate::model::limits::Limits;
use crate::model::recipe::{Names, Schema};

pub(super) use crate::format::tfrecord::example::TfRecord;
pub(crate) use crate::format::tfrecord::frame::begins_record;

/// Protobuf's limit for one message, with room for the features around a content.
const MAX_FIELD: u64 = (1 << 31) - (1 << 20);

impl Layout for TfRecord {
    fn extension(&self) -> &'static str {
        "tfrecord"
    }

    fn limits(&self) -> Limits {
        let most = (MAX_FIELD, "protobuf messages end at 2 GiB");
        Limits {
            sample: most,
            ..Limits::of_fields(most.0, most.1)
        }
    }

    fn generated(&self) -> Vec<&'static str> {
        // Not fields of ours, but a field of such a name could not be told from them.
        match self.schema {
            Schema::Imagenet => vec![],
            Schema::Tfds => vec!["image", "label", "file_name"],
        }
    }

    fn sample_bytes(&self, about: &About<'_>, fields: &[(&str, u64)]) -> u64 {
        HEAD_BYTES + self.parts(about, fields).example_bytes + TAIL_BYTES
    }

    fn check_image(&self, image: Option<ImageInfo>) -> Result<(), String> {
        match image {
            Some(image) if image.width > 0 => Ok(()),
            _ if self.schema == Schema::Tfds => Ok(()),
            _ => Err(
                "its width and height are not known, which the features of `--schema imagenet` name: use `--schema tfds`, or leave it out"
                    .to_owned(),
            ),
        }
    }

    fn overhead_bytes(&self) -> u64 {
        0
    }

    fn joins(&self) -> bool {
        true
    }

    fn walk(
        &self,
        name: &str,
        keys: &str,
        shard: &mut (dyn Read + Send),
        visit: &mut dyn Visit,
    ) -> io::Result<()> {
        walk(name, keys, shard, visit)
    }

    fn packer<'a>(&'a self, _: &'a Names) -> Result<Box<dyn Packer + 'a>> {
        Ok(Box::new(TfRecordPacker::new(self)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use prost::Message;

    use super::*;
    use crate::base::image::ImageFormat;
    use crate::base::text::{hex, unhex};
    use crate::format::test::walk as walk_through;
    use crate::format::test::{Members, check, names, pack, samples};
    use crate::format::tfrecord::frame::{crc32c, masked};
    use crate::format::tfrecord::messages::{Feature, FloatList, Values, bytes, int};
    use crate::model::record::{FieldRecord, SampleRecord};
    use crate::model::sample::SourcePath;

    /// `tf.train.Example`.
    #[derive(Clone, PartialEq, Message)]
    struct Example {
        /// Its features.
        #[prost(message, optional, tag = "1")]
        features: Option<Features>,
    }

    /// `tf.train.Features`.
    #[derive(Clone, PartialEq, Message)]
    struct Features {
        /// By name; written sorted.
        #[prost(btree_map = "string, message", tag = "1")]
        feature: BTreeMap<String, Feature>,
    }

    fn layout(schema: Schema) -> TfRecord {
        TfRecord {
            schema,
            label_base: schema.label_base(),
        }
    }

    fn feature_of(content: &[u8]) -> Feature {
        bytes(content)
    }

    fn two() -> Members {
        let sample = |key: &str, label, size| {
            let fields = vec![
                ("jpg".to_owned(), vec![b'A'; size]),
                ("txt".to_owned(), b"a text".to_vec()),
            ];
            (key.to_owned(), label, fields)
        };
        vec![sample("a", 0, 600), sample("b", 2, 0)]
    }

    /// The Examples of a file, every checksum compared.
    fn read(mut bytes: &[u8]) -> Vec<Example> {
        let mut examples = Vec::new();
        while !bytes.is_empty() {
            let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            let sum = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            assert_eq!(sum(8), masked(crc32c(&bytes[..8])));
            let data = &bytes[12..12 + length];
            assert_eq!(sum(12 + length), masked(crc32c(data)));
            examples.push(Example::decode(data).unwrap());
            bytes = &bytes[length + 16..];
        }
        examples
    }

    #[test]
    fn the_published_test_vectors_come_out_byte_for_byte() {
        let framed = |data: &[u8]| {
            let length = (data.len() as u64).to_le_bytes();
            let sum = |bytes| masked(crc32c(bytes)).to_le_bytes();
            hex(&[&length[..], &sum(&length), data, &sum(data)].concat())
        };
        assert_eq!(
            framed(b"hello0"),
            "060000000000000 07369d53768656c6c6f3051c7f114".replace(' ', "")
        );
        assert_eq!(framed(b""), "000000000000000029039807d8ea82a2");
        let example = |features: &[(&str, Feature)]| {
            let feature = features
                .iter()
                .map(|(name, feature)| ((*name).to_owned(), feature.clone()));
            let features = Some(Features {
                feature: feature.collect(),
            });
            Example { features }.encode_to_vec()
        };
        let vector = "0a210a0f0a05696d61676512060a040a0241420a0e0a056c6162656c12051a030a0107";
        let data = example(&[("label", int(7)), ("image", bytes(b"AB"))]);
        assert_eq!(hex(&data), vector);
        assert_eq!(
            framed(&data),
            format!("2300000000000000b09f7743{vector}37edbff4")
        );
        let vector = "0a190a170a056c6162656c120e1a0c0a0affffffffffffffffff01";
        assert_eq!(hex(&example(&[("label", int(-1))])), vector);
        let floats = Feature {
            kind: Some(Values::Floats(FloatList {
                value: vec![0.5, 1.0],
            })),
        };
        assert_eq!(
            hex(&example(&[("f", floats)])),
            "0a130a110a0166120c120a0a080000003f0000803f"
        );
    }

    #[test]
    fn what_is_written_around_contents_is_what_the_protobuf_library_writes() {
        for schema in [Schema::Imagenet, Schema::Tfds] {
            let (shard, record) = pack(&layout(schema), &two());
            let examples = read(&shard);
            assert_eq!(examples.len(), 2);
            for (example, row) in examples.iter().zip(&record.samples) {
                let start = row.offset as usize + 12;
                let data = &shard[start..start + row.length as usize - 16];
                assert_eq!(hex(&example.encode_to_vec()), hex(data));
            }
        }
    }

    #[test]
    fn each_schema_has_its_features_and_its_label_base() {
        let of = |schema, at: usize| {
            let feature = read(&pack(&layout(schema), &two()).0)[at]
                .features
                .clone()
                .unwrap()
                .feature;
            let text = |feature: Feature| match feature.kind.unwrap() {
                Values::Ints(list) => format!("{:?}", list.value),
                Values::Bytes(list) => format!("{:?}", String::from_utf8_lossy(&list.value[0])),
                Values::Floats(list) => format!("{:?}", list.value),
            };
            let all: Vec<_> = feature
                .into_iter()
                .map(|(name, value)| format!("{name}={}", text(value)))
                .collect();
            all.join(" ")
        };
        assert_eq!(
            of(Schema::Imagenet, 1),
            "image/channels=[3] image/class/label=[3] image/class/synset=\"emu\" image/colorspace=\"RGB\" image/encoded=\"\" \
             image/filename=\"b.JPEG\" image/format=\"JPEG\" image/height=[375] image/width=[500] txt=\"a text\""
        );
        assert_eq!(
            of(Schema::Tfds, 1),
            "file_name=\"b.JPEG\" image=\"\" label=[2] txt=\"a text\""
        );
    }

    #[test]
    fn the_image_is_planned_with_sides_of_two_bytes() {
        let layout = layout(Schema::Imagenet);
        let names = names();
        let mut row = SampleRecord {
            source_path: SourcePath::new("cat/a.PNG"),
            ..SampleRecord::default()
        };
        let planned = layout.sample_bytes(&About::recorded(&row, "train", &names), &[("png", 7)]);
        for (side, more) in [(1, -2), (127, -2), (128, 0), (16383, 0), (16384, 2)] {
            row.image = Some(ImageInfo {
                format: ImageFormat::Png,
                width: side,
                height: side,
            });
            let bytes = layout.sample_bytes(&About::recorded(&row, "train", &names), &[("png", 7)]);
            assert_eq!(bytes as i64 - planned as i64, more, "{side}");
        }
    }

    #[test]
    fn every_flipped_byte_and_every_cut_is_found_and_its_place_named() {
        for schema in [Schema::Imagenet, Schema::Tfds] {
            let layout = layout(schema);
            let (mut bytes, record) = pack(&layout, &two());
            assert_eq!(check(&layout, &bytes, &record), []);
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x10;
                let findings = check(&layout, &damaged, &record);
                assert_eq!(findings.len(), 1, "byte {at}: {findings:?}");
                let [from, to] = findings[0].range.unwrap();
                assert!(
                    (from..to).contains(&(at as u64)),
                    "byte {at}: {}",
                    findings[0]
                );
                assert_eq!(
                    check(&layout, &bytes[..at], &record).len(),
                    1,
                    "cut at {at}"
                );
            }
            bytes.push(0);
            assert_eq!(check(&layout, &bytes, &record).len(), 1);
        }
    }

    #[test]
    fn masking_is_the_one_of_tensorflow() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(
            masked(crc32c(b"hello0")).to_le_bytes()[..],
            unhex("51c7f114").unwrap()
        );
    }

    proptest! {
        #[test]
        fn any_samples_read_back_equal_with_the_protobuf_library(members in samples()) {
            let layout = layout(Schema::Tfds);
            let (bytes, record) = pack(&layout, &members);
            let examples = read(&bytes);
            prop_assert_eq!(examples.len(), members.len());
            for (example, (_, label, fields)) in examples.into_iter().zip(&members) {
                let feature = example.features.unwrap().feature;
                prop_assert_eq!(&feature["image"], &feature_of(&fields[0].1));
                prop_assert_eq!(&feature["txt"], &feature_of(&fields[1].1));
                prop_assert_eq!(&feature["label"], &int(i64::from(*label)));
            }
            prop_assert_eq!(check(&layout, &bytes, &record), vec![]);
        }

        #[test]
        fn a_walk_finds_what_was_packed_and_every_flip(members in samples(), at in any::<prop::sample::Index>()) {
            for schema in [Schema::Imagenet, Schema::Tfds] {
                let (mut bytes, record) = pack(&layout(schema), &members);
                let walked = walk_through(&layout(schema), &bytes);
                prop_assert_eq!((walked.found.len(), walked.noted.len(), walked.rows.len()), (0, 0, record.samples.len()));
                for (walked, row) in walked.rows.iter().zip(&record.samples) {
                    prop_assert_eq!((walked.offset, walked.length), (row.offset, row.length));
                    prop_assert_eq!(walked.label, row.label + schema.label_base());
                    for field in &row.fields {
                        let same = |other: &&FieldRecord| other.offset == field.offset && other.length == field.length;
                        prop_assert_eq!(walked.fields.iter().find(same).unwrap().crc32, field.crc32);
                    }
                }
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] ^= 4;
                    prop_assert_eq!(walk_through(&layout(schema), &bytes).found.len(), 1);
                }
            }
        }

        #[test]
        fn hostile_examples_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), length in any::<u64>()) {
            let frame = |length: u64, data: &[u8]| {
                let length = length.to_le_bytes();
                let sum = |bytes: &[u8]| masked(crc32c(bytes)).to_le_bytes();
                [&length[..], &sum(&length), data, &sum(data)].concat()
            };
            walk_through(&layout(Schema::Tfds), &bytes);
            walk_through(&layout(Schema::Tfds), &frame(length, &bytes));
            prop_assert_eq!(walk_through(&layout(Schema::Tfds), &frame(bytes.len() as u64, &bytes)).found.len(), 0);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let layout = layout(Schema::Imagenet);
            let (_, record) = pack(&layout, &two());
            check(&layout, &bytes, &record);
        }
    }
}
