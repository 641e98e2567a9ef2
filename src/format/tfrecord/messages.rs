//! The protobuf messages of a `tf.train.Example`, and what protobuf puts around a content that is written as it comes.
//!
//! Sources: TensorFlow `core/example/example.proto`, `core/example/feature.proto`.

use prost::Message;
use prost::encoding::{encode_varint, encoded_len_varint};

/// `tf.train.Feature`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Feature {
    /// Values of one of three types.
    #[prost(oneof = "Values", tags = "1, 2, 3")]
    pub kind: Option<Values>,
}

/// The values of a feature.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Values {
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
pub(crate) struct BytesList {
    /// The values.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub value: Vec<Vec<u8>>,
}

/// `tf.train.FloatList`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FloatList {
    /// The values.
    #[prost(float, repeated, tag = "1")]
    pub value: Vec<f32>,
}

/// `tf.train.Int64List`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Int64List {
    /// The values.
    #[prost(int64, repeated, tag = "1")]
    pub value: Vec<i64>,
}

/// One entry of [`Features::feature`] as protobuf puts it on the wire.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Entry {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<Feature>,
}

/// A feature of one integer.
pub(super) fn int(value: i64) -> Feature {
    Feature {
        kind: Some(Values::Ints(Int64List { value: vec![value] })),
    }
}

/// A feature of one byte string.
pub(super) fn bytes(value: &[u8]) -> Feature {
    Feature {
        kind: Some(Values::Bytes(BytesList {
            value: vec![value.to_vec()],
        })),
    }
}

/// Tag of a length-delimited field 1; messages around a content need this and the next only.
pub(super) const FIELD_1: u8 = 0x0a;

/// Tag of a length-delimited field 2.
pub(super) const FIELD_2: u8 = 0x12;

/// Bytes of a length-delimited field with a one-byte tag.
pub(super) fn delimited(length: u64) -> u64 {
    1 + encoded_len_varint(length) as u64 + length
}

/// Writes the tag and the length before a length-delimited field.
pub(super) fn open(out: &mut Vec<u8>, tag: u8, length: u64) {
    out.push(tag);
    encode_varint(length, out);
}

/// Bytes of the list that holds one content of `size` bytes.
pub(super) fn list_bytes(size: u64) -> u64 {
    delimited(size)
}

/// Bytes of the feature that holds that list.
pub(super) fn feature_bytes(size: u64) -> u64 {
    delimited(list_bytes(size))
}
