//! The blocks of a ustar archive: header, padding, end marker.
//!
//! Headers are made here and not by the tar crate because readers compare them byte for byte: the checksum field is six digits, NUL, space,
//! and the device fields are NUL.

/// All in a tar begins at a multiple of so many bytes.
pub(super) const BLOCK: usize = 512;

/// Bytes of the end marker: two blocks of zeros.
pub(super) const END_BYTES: usize = 2 * BLOCK;

/// Longest name of a member in bytes.
pub(super) const NAME_BYTES: usize = 100;

/// Largest size of eleven octal digits; base-256 sizes break wids.
pub(super) const MAX_SIZE: u64 = 0o77_777_777_777;

/// An end marker.
pub(super) static ZEROS: [u8; END_BYTES] = [0; END_BYTES];

/// The 512 bytes before a member's content. `name` is at most 100 bytes and `size` at most [`MAX_SIZE`].
pub(super) fn header(name: &str, size: u64) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..108].copy_from_slice(b"0000444\0");
    header[108..116].copy_from_slice(b"0000000\0");
    header[116..124].copy_from_slice(b"0000000\0");
    octal(&mut header[124..135], size);
    header[136..148].copy_from_slice(b"00000000000\0");
    header[148..156].fill(b' ');
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum = header.iter().map(|&byte| u64::from(byte)).sum();
    octal(&mut header[148..154], sum);
    header[154] = 0;
    header
}

/// Writes a number in octal digits, with zeros before it.
fn octal(digits: &mut [u8], mut value: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value & 7) as u8;
        value >>= 3;
    }
}

/// Bytes between a content of this size and the next block.
pub(super) fn padding(size: u64) -> usize {
    ((BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64) as usize
}

/// Name of the member that holds a field.
pub(super) fn member_name(key: &str, field: &str) -> String {
    let mut name = String::with_capacity(key.len() + 1 + field.len());
    name.push_str(key);
    name.push('.');
    name.push_str(field);
    name
}
