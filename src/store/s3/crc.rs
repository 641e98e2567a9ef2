//! CRC-32 as S3 writes it: base64 of its big-endian bytes.

/// A CRC-32 in S3's writing.
pub(super) fn crc_base64(crc32: u32) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    // 32 bits and 4 of padding are six digits.
    let bits = u64::from(crc32) << 4;
    let digits = (0..6)
        .rev()
        .map(|i| DIGITS[(bits >> (6 * i)) as usize & 63] as char);
    digits.chain("==".chars()).collect()
}

/// The CRC-32 that is written so.
pub(super) fn crc_from_base64(text: &str) -> Option<u32> {
    let digits = text.strip_suffix("==").filter(|digits| digits.len() == 6)?;
    let mut bits = 0u64;
    for c in digits.bytes() {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u64::from(digit);
    }
    u32::try_from(bits >> 4).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_written_as_s3_writes_them() {
        // CRC-32 of "123456789", as AWS's own examples have it.
        assert_eq!(crc_base64(0xcbf4_3926), "y/Q5Jg==");
        for crc32 in [0, 1, 0xcbf4_3926, u32::MAX] {
            assert_eq!(crc_from_base64(&crc_base64(crc32)), Some(crc32));
        }
        for text in ["", "y/Q5Jg==-3", "y/Q5Jg", "y Q5Jg==", "yy/Q5Jg=="] {
            assert_eq!(crc_from_base64(text), None, "{text}");
        }
    }
}
