//! TFRecord: one `tf.train.Example` a sample, framed with masked CRC-32C.
//!
//! Sources: TensorFlow `core/lib/io/record_writer.cc` (framing), `core/example/example.proto`, `core/example/feature.proto`;
//! field names of slim's `build_imagenet_data.py` and of TFDS. Features are sorted by name, so the same sample gives the same
//! bytes. A content is written as it comes, between what protobuf puts around it.

use std::collections::BTreeMap;
use std::io::{self, Read};

use crc_fast::{CrcAlgorithm, Digest, checksum};
use prost::Message;
use prost::encoding::{encode_varint, encoded_len_varint};

use super::check::CHECKSUM;
use super::{About, Body, Finding, Layout, Out, Packer, Placed, Spot, Visit};
use crate::base::error::{Error, Kind, Result};
use crate::base::image::{ImageFormat, ImageInfo, Validate, image_field, probe};
use crate::model::limits::Limits;
use crate::model::recipe::{Names, Recipe, Schema};
use crate::model::record::{FieldRecord, NO_LABEL, SampleRecord};
use crate::model::sample::SourcePath;

/// Protobuf's limit for one message, with room for the features around a content.
const MAX_FIELD: u64 = (1 << 31) - (1 << 20);
const MAX_EXAMPLE: u64 = (1 << 31) - 1;
/// Length and its checksum; the checksum of the data follows it.
const HEAD_BYTES: u64 = 12;
const TAIL_BYTES: u64 = 4;
/// A width or height as planned: two bytes as a varint, as every one from 128 to 16383 is.
const PLANNED_SIDE: u32 = 256;

impl Schema {
    /// First label when nothing else is asked for: 0 is background for readers of the ImageNet fields.
    pub fn label_base(self) -> u32 {
        match self {
            Schema::Imagenet => 1,
            Schema::Tfds => 0,
        }
    }

    /// Feature that holds the image, and the one that holds the label.
    pub fn features(self) -> (&'static str, &'static str) {
        match self {
            Schema::Imagenet => ("image/encoded", "image/class/label"),
            Schema::Tfds => ("image", "label"),
        }
    }
}

/// `tf.train.Example`.
#[derive(Clone, PartialEq, Message)]
pub struct Example {
    /// Its features.
    #[prost(message, optional, tag = "1")]
    pub features: Option<Features>,
}

/// `tf.train.Features`.
#[derive(Clone, PartialEq, Message)]
pub struct Features {
    /// By name; written sorted.
    #[prost(btree_map = "string, message", tag = "1")]
    pub feature: BTreeMap<String, Feature>,
}

/// `tf.train.Feature`.
#[derive(Clone, PartialEq, Message)]
pub struct Feature {
    /// Values of one of three types.
    #[prost(oneof = "Values", tags = "1, 2, 3")]
    pub kind: Option<Values>,
}

/// The values of a feature.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Values {
    /// Byte strings.
    #[prost(message, tag = "1")]
    Bytes(BytesList),
    /// 32-bit floating point numbers.
    #[prost(message, tag = "2")]
    Floats(FloatList),
    /// 64-bit integers.
    #[prost(message, tag = "3")]
    Ints(Int64List),
}

/// `tf.train.BytesList`.
#[derive(Clone, PartialEq, Message)]
pub struct BytesList {
    /// The values.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub value: Vec<Vec<u8>>,
}

/// `tf.train.FloatList`.
#[derive(Clone, PartialEq, Message)]
pub struct FloatList {
    /// The values.
    #[prost(float, repeated, tag = "1")]
    pub value: Vec<f32>,
}

/// `tf.train.Int64List`.
#[derive(Clone, PartialEq, Message)]
pub struct Int64List {
    /// The values.
    #[prost(int64, repeated, tag = "1")]
    pub value: Vec<i64>,
}

/// One entry of [`Features::feature`] as protobuf puts it on the wire.
#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Feature>,
}

fn int(value: i64) -> Feature {
    Feature {
        kind: Some(Values::Ints(Int64List { value: vec![value] })),
    }
}

fn bytes(value: &[u8]) -> Feature {
    Feature {
        kind: Some(Values::Bytes(BytesList {
            value: vec![value.to_vec()],
        })),
    }
}

/// Castagnoli's CRC-32, by the processor's own means.
fn crc32c(data: &[u8]) -> u32 {
    // The upper half is zero.
    checksum(CrcAlgorithm::Crc32Iscsi, data) as u32
}

/// TFRecord's way to keep a checksum of data that holds checksums from being trivial.
pub(super) fn masked(crc32c: u32) -> u32 {
    crc32c.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Tags of a length-delimited field 1 and 2, which is all that messages around a content need.
const FIELD_1: u8 = 0x0a;
const FIELD_2: u8 = 0x12;

/// Bytes of a length-delimited field with a one-byte tag.
fn delimited(length: u64) -> u64 {
    1 + encoded_len_varint(length) as u64 + length
}

fn open(out: &mut Vec<u8>, tag: u8, length: u64) {
    out.push(tag);
    encode_varint(length, out);
}

/// Bytes of the feature that holds a content, and of the message around it.
fn content_feature(size: u64) -> (u64, u64) {
    let list = delimited(size);
    (delimited(list), list)
}

/// One feature of an Example: made here, or the content of a field.
enum Part<'f> {
    Made(Vec<u8>),
    Content {
        feature: &'f str,
        field: usize,
        size: u64,
    },
}

impl Part<'_> {
    /// Bytes of the map entry, without its own tag and length.
    fn entry_bytes(&self) -> u64 {
        match self {
            Part::Made(entry) => entry.len() as u64,
            Part::Content { feature, size, .. } => {
                let (value, _) = content_feature(*size);
                delimited(feature.len() as u64) + delimited(value)
            }
        }
    }
}

/// The layout `tfrecord`.
pub(super) struct TfRecord {
    schema: Schema,
    label_base: u32,
}

impl TfRecord {
    /// With the features that the recipe names.
    pub(super) fn new(recipe: &Recipe) -> Self {
        Self {
            schema: recipe.schema,
            label_base: recipe.label_base,
        }
    }

    /// The features that are made, by name.
    fn made(&self, about: &About<'_>) -> Vec<(&'static str, Feature)> {
        let label = i64::from(about.label) + i64::from(self.label_base);
        let path = about.path.as_bytes();
        let base = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
        if self.schema == Schema::Tfds {
            return vec![("file_name", bytes(base)), ("label", int(label))];
        }
        let (_, extension) = crate::model::sample::split_extension(base);
        let named = image_field(extension).and_then(ImageFormat::of_extension);
        let format = about.image.map(|image| image.format).or(named);
        let format = format
            .map_or("JPEG", ImageFormat::name)
            .to_ascii_uppercase();
        let side = |of: fn(ImageInfo) -> u32| int(about.image.map_or(PLANNED_SIDE, of).into());
        let mut made = vec![
            // What readers decode to, as slim's writer has it for grey and CMYK images too.
            ("image/channels", int(3)),
            ("image/class/label", int(label)),
            ("image/class/synset", bytes(about.class().as_bytes())),
            ("image/colorspace", bytes(b"RGB")),
            ("image/filename", bytes(base)),
            ("image/format", bytes(format.as_bytes())),
            ("image/height", side(|image| image.height)),
            ("image/width", side(|image| image.width)),
        ];
        if let Some(text) = about.names.texts.get(about.label as usize) {
            made.push(("image/class/text", bytes(text.as_bytes())));
        }
        made
    }

    /// The features of a sample in order, and the length of the Example.
    fn parts<'f>(&self, about: &About<'_>, fields: &'f [(&str, u64)]) -> (Vec<Part<'f>>, u64, u64) {
        let mut parts: Vec<(&str, Part<'f>)> = Vec::with_capacity(12);
        for (name, feature) in self.made(about) {
            let entry = Entry {
                key: name.to_owned(),
                value: Some(feature),
            };
            parts.push((name, Part::Made(entry.encode_to_vec())));
        }
        let image = fields
            .iter()
            .position(|(name, _)| image_field(name.as_bytes()).is_some());
        for (field, &(name, size)) in fields.iter().enumerate() {
            let feature = if image == Some(field) {
                self.schema.features().0
            } else {
                name
            };
            parts.push((
                feature,
                Part::Content {
                    feature,
                    field,
                    size,
                },
            ));
        }
        parts.sort_by_key(|(name, _)| *name);
        let features = parts
            .iter()
            .map(|(_, part)| delimited(part.entry_bytes()))
            .sum();
        let parts = parts.into_iter().map(|(_, part)| part).collect();
        (parts, features, delimited(features))
    }
}

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
        HEAD_BYTES + self.parts(about, fields).2 + TAIL_BYTES
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
        Ok(Box::new(TfRecordPacker {
            layout: self,
            samples: 0,
            pending: Vec::new(),
        }))
    }
}

/// What a walk knows of an Example.
#[derive(Default)]
struct Seen {
    /// Byte features of one value: name, and where it is in the Example.
    contents: Vec<(String, std::ops::Range<usize>)>,
    /// Integer features of one value.
    ints: Vec<(String, i64)>,
}

impl Seen {
    fn int(&self, names: [&str; 2]) -> Option<i64> {
        let named = |name: &&str| self.ints.iter().find(|(known, _)| known == name);
        names.iter().find_map(named).map(|(_, value)| *value)
    }

    fn text(&self, data: &[u8], names: [&str; 2]) -> Option<Vec<u8>> {
        let named = |name: &&str| self.contents.iter().find(|(known, _)| known == name);
        let (_, range) = names.iter().find_map(named)?;
        Some(data[range.clone()].to_vec())
    }
}

/// The fields of a message: number, and where the content of a length-delimited one is. `None` where it is no message.
fn message(
    data: &[u8],
    within: std::ops::Range<usize>,
) -> Option<Vec<(u64, std::ops::Range<usize>)>> {
    let mut fields = Vec::new();
    let mut at = within.start;
    let varint = |at: &mut usize| {
        let mut rest = data.get(*at..within.end)?;
        let before = rest.len();
        let value = prost::encoding::decode_varint(&mut rest).ok()?;
        *at += before - rest.len();
        Some(value)
    };
    while at < within.end {
        let key = varint(&mut at)?;
        let range = match key & 7 {
            0 => {
                let start = at;
                varint(&mut at)?;
                start..at
            }
            1 => at..at.checked_add(8)?,
            2 => {
                let length = usize::try_from(varint(&mut at)?).ok()?;
                at..at.checked_add(length)?
            }
            5 => at..at.checked_add(4)?,
            _ => return None,
        };
        if range.end > within.end {
            return None;
        }
        at = range.end;
        fields.push((key >> 3, range));
    }
    Some(fields)
}

/// Finds the features of an Example without copying their content.
fn features(data: &[u8]) -> Option<Seen> {
    let only = |fields: Vec<(u64, std::ops::Range<usize>)>, number| {
        let mut of = fields
            .into_iter()
            .filter(|(n, _)| *n == number)
            .map(|(_, range)| range);
        (of.next(), of.next().is_none())
    };
    let mut seen = Seen::default();
    for (_, features) in message(data, 0..data.len())?
        .into_iter()
        .filter(|(n, _)| *n == 1)
    {
        for (_, entry) in message(data, features)?
            .into_iter()
            .filter(|(n, _)| *n == 1)
        {
            let fields = message(data, entry)?;
            let (Some(key), _) = only(fields.clone(), 1) else {
                continue;
            };
            let name = String::from_utf8_lossy(&data[key]).into_owned();
            let (Some(feature), _) = only(fields, 2) else {
                continue;
            };
            for (kind, list) in message(data, feature)? {
                match kind {
                    1 => {
                        if let (Some(value), true) = only(message(data, list)?, 1) {
                            seen.contents.push((name.clone(), value));
                        }
                    }
                    3 => {
                        // One value is the same bytes whether lists are packed or not.
                        if let (Some(value), true) = only(message(data, list)?, 1) {
                            let mut packed = &data[value];
                            if let Ok(value) = prost::encoding::decode_varint(&mut packed)
                                && packed.is_empty()
                            {
                                seen.ints.push((name.clone(), value as i64));
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    Some(seen)
}

/// Reads up to so many bytes; memory grows with what there is, not with what is announced.
fn some(shard: &mut (dyn Read + Send), most: u64, into: &mut Vec<u8>) -> io::Result<()> {
    into.clear();
    shard.take(most).read_to_end(into).map(drop)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// Whether a file begins with the length of a record and its checksum.
pub fn begins_record(file: &[u8]) -> bool {
    file.len() >= HEAD_BYTES as usize && u32_at(file, 8) == masked(crc32c(&file[..8]))
}

/// Walks a TFRecord file made by anybody: framing, checksums, and what each Example holds.
fn walk(
    name: &str,
    keys: &str,
    shard: &mut (dyn Read + Send),
    visit: &mut dyn Visit,
) -> io::Result<()> {
    let (mut head, mut data) = (Vec::new(), Vec::new());
    let mut offset = 0;
    for number in 0.. {
        let key = format!("{keys}/{number:08}");
        let finding = |what: &str| Finding::new(name, what).sample(&key);
        some(shard, HEAD_BYTES, &mut head)?;
        if head.is_empty() {
            return Ok(());
        }
        if head.len() < HEAD_BYTES as usize {
            let end = offset + head.len() as u64;
            visit.found(finding("file ends inside a record's length").range(offset, end));
            return Ok(());
        }
        let length = u64::from_le_bytes(std::array::from_fn(|i| head[i]));
        if !begins_record(&head) || length > MAX_EXAMPLE {
            // Without a length there is no next record.
            let what = finding("length of the record, by its crc32c: what follows cannot be read");
            visit.found(what.range(offset, offset + HEAD_BYTES));
            return Ok(());
        }
        some(shard, length + TAIL_BYTES, &mut data)?;
        let end = offset + HEAD_BYTES + length + TAIL_BYTES;
        if (data.len() as u64) < length + TAIL_BYTES {
            let there = offset + HEAD_BYTES + data.len() as u64;
            visit.found(
                finding("file ends inside this record")
                    .values(end, there)
                    .range(there, end),
            );
            return Ok(());
        }
        let sum = u32_at(&data, length as usize);
        data.truncate(length as usize);
        if sum != masked(crc32c(&data)) {
            visit.found(finding("content of the record, by its crc32c").range(offset, end));
        }
        let mut row = SampleRecord {
            key: key.clone(),
            label: NO_LABEL,
            offset,
            length: end - offset,
            ..SampleRecord::default()
        };
        let mut class = None;
        match features(&data) {
            None => visit.noted(finding(
                "not a tf.train.Example: its features are not known",
            )),
            Some(seen) => {
                let label = seen.int(["image/class/label", "label"]);
                row.label = label
                    .and_then(|label| u32::try_from(label).ok())
                    .unwrap_or(NO_LABEL);
                class = seen.text(&data, ["image/class/synset", "image/class/text"]);
                if label.is_none() && class.is_none() {
                    class = seen.text(&data, ["image/class/label", "label"]);
                }
                let file = seen.text(&data, ["image/filename", "file_name"]);
                row.source_path = SourcePath::new(file.unwrap_or_default());
                for (name, range) in seen.contents {
                    let content = &data[range.clone()];
                    if is_image(&name) {
                        row.image = probe(content, Validate::Header, 0).unwrap_or(None);
                    }
                    row.fields.push(FieldRecord {
                        name,
                        offset: offset + HEAD_BYTES + range.start as u64,
                        length: range.len() as u64,
                        crc32: crc32fast::hash(content),
                    });
                }
            }
        }
        visit.sample(row, class.map(|class| crate::base::text::show(&class)));
        offset = end;
    }
    Ok(())
}

/// Whether a feature of this name holds the image, in either schema.
pub fn is_image(name: &str) -> bool {
    [Schema::Imagenet, Schema::Tfds]
        .iter()
        .any(|schema| schema.features().0 == name)
}

struct TfRecordPacker<'a> {
    layout: &'a TfRecord,
    samples: usize,
    /// Bytes between two contents.
    pending: Vec<u8>,
}

impl Packer for TfRecordPacker<'_> {
    fn append(
        &mut self,
        out: &mut dyn Out,
        about: &About<'_>,
        fields: &mut [(&str, Body<'_>)],
    ) -> Result<Placed> {
        let offset = out.position();
        let sizes: Vec<(&str, u64)> = fields
            .iter()
            .map(|(name, body)| (*name, body.size()))
            .collect();
        let (parts, features, example) = self.layout.parts(about, &sizes);
        if example > MAX_EXAMPLE {
            let what = format!(
                "sample `{}` makes an Example of {example} bytes, protobuf ends at 2 GiB: leave it out",
                about.key
            );
            return Err(Error::new(Kind::Source, what));
        }
        let spot = |what, field| Spot {
            what,
            sample: Some(self.samples),
            field,
        };
        let pending = &mut self.pending;
        pending.clear();
        pending.extend(example.to_le_bytes());
        pending.extend(masked(crc32c(&example.to_le_bytes())).to_le_bytes());
        let mut crc = Digest::new(CrcAlgorithm::Crc32Iscsi);
        let mut done = pending.len();
        open(pending, FIELD_1, features);
        let mut placed = Vec::with_capacity(fields.len());
        for part in &parts {
            open(pending, FIELD_1, part.entry_bytes());
            match part {
                Part::Made(entry) => pending.extend_from_slice(entry),
                Part::Content {
                    feature,
                    field,
                    size,
                } => {
                    let (value, list) = content_feature(*size);
                    open(pending, FIELD_1, feature.len() as u64);
                    pending.extend_from_slice(feature.as_bytes());
                    open(pending, FIELD_2, value);
                    open(pending, FIELD_1, list);
                    open(pending, FIELD_1, *size);
                    crc.update(&pending[done..]);
                    out.frame(spot("features", ""), pending)?;
                    pending.clear();
                    done = 0;
                    let (name, body) = &mut fields[*field];
                    let start = out.position();
                    let crc32 = out.content(spot("content", name), body, &mut |piece| {
                        crc.update(piece);
                    })?;
                    placed.push(FieldRecord {
                        name: (*name).to_owned(),
                        offset: start,
                        length: *size,
                        crc32,
                    });
                }
            }
        }
        crc.update(&pending[done..]);
        out.frame(spot("features", ""), pending)?;
        out.frame(
            spot(CHECKSUM, ""),
            &masked(crc.finalize() as u32).to_le_bytes(),
        )?;
        placed.sort_by_key(|field| field.offset);
        self.samples += 1;
        Ok(Placed {
            offset,
            length: out.position() - offset,
            fields: placed,
        })
    }

    fn finish(&mut self, _: &mut dyn Out) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::text::{hex, unhex};
    use crate::format::test::walk as walk_through;
    use crate::format::test::{Members, check, names, pack, samples};
    use proptest::prelude::*;

    fn layout(schema: Schema) -> TfRecord {
        TfRecord {
            schema,
            label_base: schema.label_base(),
        }
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
                prop_assert_eq!(&feature["image"], &super::bytes(&fields[0].1));
                prop_assert_eq!(&feature["txt"], &super::bytes(&fields[1].1));
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
            features(&bytes);
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
