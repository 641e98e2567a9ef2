//! Where objects lie: a bucket and a prefix in it, written `s3://BUCKET/PREFIX`.

use std::fmt;

use crate::base::error::{Error, Result};
use crate::store::S3_SCHEME;

/// A bucket and a prefix in it, with a slash at its end unless it is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) bucket: String,
    pub(super) prefix: String,
}

impl Location {
    /// The location that is written so; any other text is a usage error.
    pub(super) fn parse(location: &str) -> Result<Self> {
        let bad =
            |what: &str| Error::usage(format!("{location}: {what}: write s3://BUCKET/PREFIX"));
        let rest = location
            .strip_prefix(S3_SCHEME)
            .ok_or_else(|| bad("not an S3 location"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-:".contains(&b);
        if bucket.is_empty() || !bucket.bytes().all(plain) {
            return Err(bad("no bucket of this name can exist"));
        }
        let prefix = prefix.trim_end_matches('/');
        if prefix.split('/').any(|part| part == "." || part == "..") || prefix.contains("//") {
            return Err(bad("`.`, `..` and empty directories have no meaning here"));
        }
        let slash = if prefix.is_empty() { "" } else { "/" };
        Ok(Self {
            bucket: bucket.to_owned(),
            prefix: format!("{prefix}{slash}"),
        })
    }

    /// The key of a name below the prefix.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A key as people write it.
    pub(super) fn object(&self, key: &str) -> String {
        format!("{S3_SCHEME}{}/{key}", self.bucket)
    }
}

/// Adds a key as URLs and headers have it: what is not plain there as `%` and two digits a byte.
pub(super) fn encode_key(key: &str, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in key.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let digits = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
            out.extend(['%', char::from(digits[0]), char::from(digits[1])]);
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{S3_SCHEME}{}", self.bucket)?;
        match self.prefix.strip_suffix('/') {
            Some(prefix) => write!(f, "/{prefix}"),
            None => Ok(()),
        }
    }
}
