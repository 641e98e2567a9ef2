//! What a content comes to, piece by piece while it is in the cache, and what the server says that it must.

use aws_smithy_checksums::ChecksumAlgorithm;
use aws_smithy_checksums::http::HttpChecksum;
use http::HeaderMap;

use crate::store::s3::crc::crc_from_base64;
use crate::store::s3::trouble::{Cause, RequestError};

/// What S3 calls the sum that is made of every content.
const CRC32: &str = "x-amz-checksum-crc32";
/// Of the others that it may keep instead one is compared: the one that costs the least.
const OTHERS: [&str; 4] = ["crc64nvme", "crc32c", "sha1", "sha256"];
/// Whether a sum is of the content, or of its parts' sums.
const TYPE: &str = "x-amz-checksum-type";

/// The sums of a content.
pub(super) struct Sums {
    crc32: crc32fast::Hasher,
    /// What the server keeps.
    expected: Option<u32>,
    other: Option<(Box<dyn HttpChecksum>, String)>,
}

impl Sums {
    /// Sums that are compared with those of an answer's head.
    pub(super) fn compared(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let composite = text(TYPE).is_some_and(|kind| kind.eq_ignore_ascii_case("COMPOSITE"));
        let expected = text(CRC32).filter(|_| !composite).and_then(crc_from_base64);
        let other = |name: &&str| -> Option<(Box<dyn HttpChecksum>, String)> {
            let sum = name.parse::<ChecksumAlgorithm>().ok()?.into_impl();
            let said = text(sum.header_name())?.to_owned();
            Some((sum, said))
        };
        Self {
            crc32: crc32fast::Hasher::new(),
            expected,
            other: match expected.is_some() || composite {
                true => None,
                false => OTHERS.iter().find_map(other),
            },
        }
    }

    /// Sums of a part of a content: servers keep none.
    pub(super) fn alone() -> Self {
        Self {
            crc32: crc32fast::Hasher::new(),
            expected: None,
            other: None,
        }
    }

    pub(super) fn add(&mut self, piece: &[u8]) {
        self.crc32.update(piece);
        if let Some((sum, _)) = &mut self.other {
            sum.update(piece);
        }
    }

    /// The CRC-32 of all that was added; an error if it is not what the server keeps.
    pub(super) fn compare(self) -> Result<u32, RequestError> {
        let differs = |name: &str, actual: &str, said: &str| {
            let what = format!("its {name} is {actual}, the server's {said}");
            RequestError::new(Cause::Corrupt, what)
        };
        let crc32 = self.crc32.finalize();
        if let Some(expected) = self.expected.filter(|&expected| expected != crc32) {
            let [actual, said] = [crc32, expected].map(|crc32| format!("{crc32:08x}"));
            return Err(differs("crc32", &actual, &said));
        }
        if let Some((sum, said)) = self.other {
            let name = sum.header_name().trim_start_matches("x-amz-checksum-");
            let actual = sum.header_value();
            // A sum of the parts' sums is longer.
            if actual.len() == said.len() && actual.as_bytes() != said.as_bytes() {
                return Err(differs(name, actual.to_str().unwrap_or_default(), &said));
            }
        }
        Ok(crc32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What "123456789" comes to when a server says so.
    fn compared(headers: &[(&'static str, &'static str)]) -> Result<u32, RequestError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let mut sums = Sums::compared(&map);
        sums.add(b"1234");
        sums.add(b"56789");
        sums.compare()
    }

    #[test]
    fn a_content_is_compared_with_whatever_sum_the_server_keeps() {
        const CRC32_OF: u32 = 0xcbf4_3926;
        // The check values of the catalogue of CRCs, and the digests of the string.
        for header in [
            ("x-amz-checksum-crc32", "y/Q5Jg=="),
            ("x-amz-checksum-crc32c", "4waSgw=="),
            ("x-amz-checksum-crc64nvme", "rosUhgp5mIg="),
            ("x-amz-checksum-sha1", "98O8HYCOBHMq32eZZczDTKeuNEE="),
            (
                "x-amz-checksum-sha256",
                "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=",
            ),
        ] {
            assert_eq!(compared(&[header]).ok(), Some(CRC32_OF), "{header:?}");
            // The same with another first digit.
            let other = format!("A{}", &header.1[1..]).leak();
            let trouble = compared(&[(header.0, other)]).unwrap_err();
            assert_eq!(trouble.cause, Cause::Corrupt, "{header:?}");
        }
        // None, and those of parts.
        for headers in [
            &[][..],
            &[("x-amz-checksum-crc32", "AAAAAA==-3")],
            &[("x-amz-checksum-crc32c", "AAAAAA==-3")],
            &[
                ("x-amz-checksum-crc32", "AAAAAA=="),
                ("x-amz-checksum-type", "COMPOSITE"),
            ],
        ] {
            assert_eq!(compared(headers).ok(), Some(CRC32_OF), "{headers:?}");
        }
    }
}
