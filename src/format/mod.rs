//! Shard layouts: how samples become bytes, and how those bytes are checked again.
//!
//! A new layout is one new file and one line in [`Format::layout`].

mod tar;

use std::io::Read;

use serde::{Deserialize, Serialize};

use crate::checksum::{Out, Scanner};
use crate::error::Result;
use crate::record::{FieldRecord, ShardRecord};

pub use tar::check_foreign;

/// The layouts there are, under the names of `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// WebDataset: plain ustar tar.
    #[default]
    #[serde(rename = "wds")]
    WebDataset,
}

impl Format {
    /// The layout of this name.
    pub fn layout(self) -> &'static dyn Layout {
        match self {
            Format::WebDataset => &tar::Tar,
        }
    }
}

/// A field's content, held or streamed.
pub enum Body<'a> {
    /// All of it.
    Bytes {
        /// The content.
        bytes: &'a [u8],
        /// Its CRC-32.
        crc32: u32,
    },
    /// A reader of exactly `size` bytes, for files too large to hold.
    Stream {
        /// Gives the bytes.
        reader: &'a mut dyn Read,
        /// How many there are.
        size: u64,
    },
}

impl<'a> Body<'a> {
    /// Content whose checksum is not known yet.
    pub fn new(bytes: &'a [u8]) -> Self {
        Body::Bytes {
            bytes,
            crc32: crc32fast::hash(bytes),
        }
    }

    /// Length in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Body::Bytes { bytes, .. } => bytes.len() as u64,
            Body::Stream { size, .. } => *size,
        }
    }
}

/// Where a packed sample ended up in its shard.
#[derive(Debug)]
pub struct Placed {
    /// First byte of the sample, framing included.
    pub offset: u64,
    /// Bytes from there to the next sample.
    pub length: u64,
    /// Each field's content.
    pub fields: Vec<FieldRecord>,
}

/// Writes one shard.
pub trait Packer {
    /// Appends a sample; `fields` are sorted by name.
    fn append(
        &mut self,
        out: &mut dyn Out,
        key: &str,
        fields: &mut [(&str, Body<'_>)],
    ) -> Result<Placed>;
    /// Writes what ends the shard.
    fn finish(&mut self, out: &mut dyn Out) -> Result<()>;
}

/// Learns what a check reads and finds.
pub trait Watch {
    /// A piece of the content of field `field` of sample `sample`, in order.
    fn piece(&mut self, sample: usize, field: usize, piece: &[u8]);
    /// The content of a field was read to its end.
    fn field_end(&mut self, sample: usize, field: usize);
    /// Something is not as it should be.
    fn finding(&mut self, finding: Finding);
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Object it was found in.
    pub object: String,
    /// Key of the sample, or what part of the object it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// Field of the sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// First and one past the last byte concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<[u64; 2]>,
    /// What is wrong.
    pub what: String,
    /// What should be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
}

impl Finding {
    /// A finding about an object.
    pub fn new(object: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            object: object.into(),
            sample: None,
            field: None,
            range: None,
            what: what.into(),
            expected: None,
            actual: None,
        }
    }

    /// In which sample.
    #[must_use]
    pub fn sample(mut self, key: impl Into<String>) -> Self {
        self.sample = Some(key.into());
        self
    }

    /// In which field.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>) -> Self {
        self.field = Some(name.into());
        self
    }

    /// At which bytes.
    #[must_use]
    pub fn range(mut self, from: u64, to: u64) -> Self {
        self.range = Some([from, to]);
        self
    }

    /// What was expected and what is there.
    #[must_use]
    pub fn values(mut self, expected: impl ToString, actual: impl ToString) -> Self {
        self.expected = Some(expected.to_string());
        self.actual = Some(actual.to_string());
        self
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:", self.object)?;
        if let Some(sample) = &self.sample {
            write!(f, " sample `{sample}`")?;
            if let Some(field) = &self.field {
                write!(f, " field `{field}`")?;
            }
            f.write_str(":")?;
        }
        if let Some([from, to]) = self.range {
            write!(f, " bytes {from}..{to}:")?;
        }
        write!(f, " {}", self.what)?;
        if let (Some(expected), Some(actual)) = (&self.expected, &self.actual) {
            write!(f, ": expected {expected}, found {actual}")?;
        }
        Ok(())
    }
}

/// One way to lay samples out in a shard.
pub trait Layout: Send + Sync {
    /// File name extension without the dot.
    fn extension(&self) -> &'static str;
    /// Largest field content in bytes, and why.
    fn max_field(&self) -> (u64, &'static str);
    /// Exact bytes of a sample whose fields have these names and sizes.
    fn sample_bytes(&self, key: &str, fields: &[(&str, u64)]) -> u64;
    /// Bytes of a shard besides its samples.
    fn overhead_bytes(&self) -> u64;
    /// A packer for one shard.
    fn packer(&self) -> Box<dyn Packer>;
    /// Reads a shard and compares it with its record to the letter. Damage goes to `watch`; an error is a failed read.
    fn check(
        &self,
        shard: &mut Scanner<'_>,
        record: &ShardRecord,
        watch: &mut dyn Watch,
    ) -> std::io::Result<()>;
}
