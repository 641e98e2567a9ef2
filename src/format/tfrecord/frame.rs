//! The frame of a record: length and data, each with a masked CRC-32C.
//!
//! Source: TensorFlow `core/lib/io/record_writer.cc`.

use crc_fast::{CrcAlgorithm, checksum};

/// Bytes before the data of a record: its length and the checksum of that.
pub(super) const HEAD_BYTES: u64 = 12;

/// Bytes after it: the checksum of the data.
pub(super) const TAIL_BYTES: u64 = 4;

/// Most bytes of an Example: protobuf's limit for one message.
pub(super) const MAX_EXAMPLE: u64 = (1 << 31) - 1;

/// Castagnoli's CRC-32, by the processor's own means.
pub(super) fn crc32c(data: &[u8]) -> u32 {
    // The upper half is zero.
    checksum(CrcAlgorithm::Crc32Iscsi, data) as u32
}

/// TFRecord's way to keep a checksum of data that holds checksums from being trivial.
pub(super) fn masked(crc32c: u32) -> u32 {
    crc32c.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The little-endian number in the four bytes at `at`.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// Whether a file begins with the length of a record and its checksum.
pub(crate) fn begins_record(file: &[u8]) -> bool {
    file.len() >= HEAD_BYTES as usize && u32_at(file, 8) == masked(crc32c(&file[..8]))
}
