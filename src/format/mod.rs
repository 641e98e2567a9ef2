//! Shard layouts: how samples become bytes, and how those bytes are checked again.
//!
//! In come samples with the contents of their files; out go the bytes of a shard and where in it each field is. A new layout is one new file
//! and one line in [`RecipeLayout::layout`]. A layout is its packer: checking a shard is packing it again from its record into an [`Out`]
//! that compares instead of writing, see [`check`](check::check).

pub(crate) mod check;
pub(crate) mod compress;
mod finding;
mod parquet;
mod tar;
pub(crate) mod tfrecord;

use std::io::{self, Read};

use crate::base::buffer::Pieces;
use crate::base::error::{Error, Result};
use crate::base::image::ImageInfo;
use crate::model::limits::Limits;
use crate::model::recipe::{Compression, Format, Names, Recipe};
use crate::model::record::{FieldRecord, SampleRecord, known_label};
use crate::model::sample::{NO_PATH, Sample, SourcePath};

pub use crate::format::finding::Finding;

/// What the shards of a recipe are like.
pub(crate) trait RecipeLayout {
    /// The layout of its shards.
    fn layout(&self) -> Box<dyn Layout>;
    /// What names of shards end in, after the dot.
    fn extension(&self) -> String;
    /// Layout and compression in a few words.
    fn describe(&self) -> String;
}

impl RecipeLayout for Recipe {
    fn layout(&self) -> Box<dyn Layout> {
        match self.format {
            Format::WebDataset => Box::new(tar::Tar::new(self)),
            Format::TfRecord => Box::new(tfrecord::TfRecord::new(self)),
            Format::Parquet => Box::new(parquet::Parquet),
        }
    }

    fn extension(&self) -> String {
        format!("{}{}", self.layout().extension(), self.compress.suffix())
    }

    fn describe(&self) -> String {
        let format = self.layout().extension();
        let made = match self.foreign {
            true => ", made by somebody else",
            false => "",
        };
        match self.compress {
            Compression::None => format!("{format}{made}"),
            Compression::Zstd { seekable: true, .. } => {
                format!("{format}, {}, seekable{made}", self.compress)
            }
            compress => format!("{format}, {compress}{made}"),
        }
    }
}

/// A field's content.
pub(crate) enum Body<'a> {
    /// All of it.
    Bytes {
        /// The content.
        bytes: &'a [u8],
        /// Its CRC-32.
        crc32: u32,
    },
    /// Pieces of exactly `size` bytes together, for files too large to hold.
    Stream {
        /// Gives the bytes.
        pieces: &'a mut dyn Pieces,
        /// How many there are.
        size: u64,
    },
    /// Content that was written before; what is known of it.
    Recorded {
        /// Its length in bytes.
        size: u64,
        /// Its CRC-32.
        crc32: u32,
    },
}

impl<'a> Body<'a> {
    /// Content whose checksum is not known yet.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Body::Bytes {
            bytes,
            crc32: crc32fast::hash(bytes),
        }
    }

    /// Length in bytes.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Body::Bytes { bytes, .. } => bytes.len() as u64,
            Body::Stream { size, .. } | Body::Recorded { size, .. } => *size,
        }
    }
}

/// What a layout may know of a sample besides the content of its files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    /// Unique over the dataset.
    pub key: &'a str,
    /// Class number, 0-based; `None` where nobody knows its class.
    pub label: Option<u32>,
    /// Name of the split.
    pub split: &'a str,
    /// Path of the image below the source's root.
    pub path: &'a SourcePath,
    /// What the image's header says; `None` before it was read, and where nobody looks.
    pub image: Option<ImageInfo>,
    /// What the dataset's labels and fields are called.
    pub names: &'a Names,
}

impl<'a> About<'a> {
    /// What is known of a sample, and of its image if that was looked at.
    pub(crate) fn of(
        sample: &'a Sample,
        split: &'a str,
        image: Option<ImageInfo>,
        names: &'a Names,
    ) -> Self {
        Self {
            key: &sample.key,
            label: sample.label,
            split,
            path: sample.image().map_or(&NO_PATH, |image| &image.path),
            image,
            names,
        }
    }

    /// What the record of a packed sample says.
    pub(crate) fn recorded(row: &'a SampleRecord, split: &'a str, names: &'a Names) -> Self {
        Self {
            key: &row.key,
            label: known_label(row.label),
            split,
            path: &row.source_path,
            image: row.image,
            names,
        }
    }

    /// Name of the sample's class.
    pub(crate) fn class(&self) -> &'a str {
        let class = self
            .label
            .and_then(|label| self.names.classes.get(label as usize));
        class.map_or("", String::as_str)
    }
}

/// Where in a shard something is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot<'a> {
    /// What it is: `header`, `padding`, `content` …
    pub what: &'static str,
    /// Number of the sample in the shard; `None` for what belongs to no sample.
    pub sample: Option<usize>,
    /// Field of the sample; empty for what belongs to all of them.
    pub field: &'a str,
}

/// Where a packer writes: a new shard, or one that is there and is compared with what would be written.
pub(crate) trait Out {
    /// Writes what the layout puts around contents.
    fn frame(&mut self, spot: Spot<'_>, bytes: &[u8]) -> Result<()>;
    /// Writes a content and shows it piece by piece to `pass`; gives its CRC-32.
    fn content(
        &mut self,
        spot: Spot<'_>,
        body: &mut Body<'_>,
        pass: &mut dyn FnMut(&[u8]),
    ) -> Result<u32>;
    /// Bytes written so far.
    fn position(&self) -> u64;
    /// Called in place of frames that follow from contents, when one of these is not what it was recorded to be: neither the frames nor
    /// their lengths are known then. `next` is the number of the sample that comes after them; there may be none.
    fn unknown(&mut self, _next: usize) -> Result<()> {
        Err(Error::failed("a content is not what its checksum says"))
    }
}

/// Where a packed sample ended up in its shard.
#[derive(Debug)]
pub(crate) struct PlacedSample {
    /// First byte of the sample, framing included.
    pub offset: u64,
    /// Bytes from there to the next sample.
    pub length: u64,
    /// Each field's content.
    pub fields: Vec<FieldRecord>,
}

/// Writes one shard.
pub(crate) trait Packer {
    /// Appends a sample with the fields that were read; those that the layout makes are added.
    fn append(
        &mut self,
        out: &mut dyn Out,
        about: &About<'_>,
        fields: &mut [(&str, Body<'_>)],
    ) -> Result<PlacedSample>;
    /// Writes what ends the shard.
    fn finish(&mut self, out: &mut dyn Out) -> Result<()>;
    /// After the end: the fields that were written later than their sample.
    fn late(&mut self) -> Vec<LateField> {
        Vec::new()
    }
}

/// A field that was written later than its sample.
#[derive(Debug)]
pub(crate) struct LateField {
    /// Number of the sample in the shard.
    pub sample: usize,
    /// Where its content is.
    pub field: FieldRecord,
}

/// Learns what a check reads and finds.
pub(crate) trait Watch {
    /// A piece of the content of field `field` of sample `sample`, in order.
    fn piece(&mut self, sample: usize, field: usize, piece: &[u8]);
    /// The content of a field was read to its end.
    fn field_end(&mut self, sample: usize, field: usize);
    /// Something is not as it should be.
    fn finding(&mut self, finding: Finding);
}

/// Bytes of a content that a walk holds to look at it.
const HELD_BYTES: usize = 4 << 20;

/// Learns what a walk through a shard that nobody recorded meets.
pub(crate) trait Visit {
    /// A sample, in shard order; and the name of its class, where the shard says it. Its label is
    /// [`NO_LABEL`](crate::model::record::NO_LABEL) where the shard says no number.
    fn sample(&mut self, row: SampleRecord, class: Option<String>);
    /// Damage.
    fn found(&mut self, finding: Finding);
    /// Something that some readers cannot take.
    fn noted(&mut self, finding: Finding);
}

/// One way to lay samples out in a shard.
pub(crate) trait Layout: Send + Sync {
    /// File name extension without the dot.
    fn extension(&self) -> &'static str;
    /// What is too large for it.
    fn limits(&self) -> Limits;
    /// Names of the fields that are made, not read.
    fn generated(&self) -> Vec<&'static str>;
    /// Bytes of a sample whose fields have these names and sizes: exact, but for what only the image's header decides.
    fn sample_bytes(&self, about: &About<'_>, fields: &[(&str, u64)]) -> u64;
    /// Says why an image of which this is known has no place in this layout.
    fn check_image(&self, _image: Option<ImageInfo>) -> Result<(), String> {
        Ok(())
    }
    /// Says why a sidecar of this content has no place in this layout.
    fn check_sidecar(&self, _field: &str, _content: &[u8]) -> Result<(), String> {
        Ok(())
    }
    /// Bytes of a shard besides its samples.
    fn overhead_bytes(&self) -> u64;
    /// Whether shards one after the other are a shard too, where each but the last goes without its last [`Layout::overhead_bytes`], which
    /// are zeros.
    fn joins(&self) -> bool {
        false
    }
    /// Walks a shard that anybody made, unpacked, and says what is in it. `keys` begins the keys of samples that have none of their
    /// own. Damage goes to `visit`; an error is a failed read.
    fn walk(
        &self,
        _name: &str,
        _keys: &str,
        _shard: &mut (dyn Read + Send),
        _visit: &mut dyn Visit,
    ) -> io::Result<()> {
        Err(io::Error::other(Error::usage(
            "files of this format describe themselves: read them with its own tools",
        )))
    }
    /// Whether each shard holds the list of all classes, so that a later list does not fit beside it.
    fn lists_classes(&self) -> bool {
        false
    }
    /// Whether what a table says of an image becomes columns of its own, besides the field `json`.
    fn has_columns(&self) -> bool {
        false
    }
    /// Whether contents other than the image are written later than their sample, see [`Packer::late`].
    fn defers(&self) -> bool {
        false
    }
    /// Bytes that a packer holds besides the sample it is given.
    fn memory_bytes(&self, _names: &Names) -> u64 {
        0
    }
    /// A packer for one shard.
    fn packer<'a>(&'a self, names: &'a Names) -> Result<Box<dyn Packer + 'a>>;
}

/// What the tests of every layout need.
#[cfg(test)]
mod test {
    use super::*;
    use crate::base::checksum::{Digest, Scanner};
    use crate::base::image::ImageFormat;
    use crate::format::compress::Compressor;
    use crate::model::recipe::Compression;
    use crate::model::record::ShardRecord;
    use proptest::prelude::*;

    /// Key, label, and name and content of each read field of some samples.
    pub(super) type Members = Vec<(String, u32, Vec<(String, Vec<u8>)>)>;

    pub(super) fn names() -> Names {
        Names {
            classes: ["cat", "dog", "emu"].map(String::from).to_vec(),
            texts: vec![],
            sidecars: vec!["txt".to_owned()],
            columns: vec![],
        }
    }

    /// Any keys and contents, each sample with an image and some with a text.
    pub(super) fn samples() -> impl Strategy<Value = Members> {
        let fields = (
            proptest::collection::vec(any::<u8>(), 0..1500),
            "[ -~]{0,40}",
        );
        let sample = ("[a-zA-Z0-9_-]{1,30}/[a-zA-Z0-9_-]{1,30}", 0u32..3, fields);
        proptest::collection::vec(sample, 0..8).prop_map(|samples| {
            let mut members = Members::new();
            for (number, (key, label, (image, text))) in samples.into_iter().enumerate() {
                let fields = vec![
                    ("jpg".to_owned(), image),
                    ("txt".to_owned(), text.into_bytes()),
                ];
                members.push((format!("{number}{key}"), label, fields));
            }
            members
        })
    }

    /// A shard of these samples, and its record.
    pub(super) fn pack(layout: &dyn Layout, members: &Members) -> (Vec<u8>, ShardRecord) {
        pack_as(layout, &names(), members)
    }

    /// The same where samples have these names.
    pub(super) fn pack_as(
        layout: &dyn Layout,
        names: &Names,
        members: &Members,
    ) -> (Vec<u8>, ShardRecord) {
        let digest = Digest::new(Vec::new(), false);
        let mut out = Compressor::new("x", digest, Compression::None, 0).unwrap();
        let mut packer = layout.packer(names).unwrap();
        let mut record = ShardRecord {
            split: "train".to_owned(),
            ..ShardRecord::empty("data/train-00000.x")
        };
        for (key, label, fields) in members {
            let mut row = SampleRecord {
                key: key.clone(),
                label: *label,
                source_path: SourcePath::new(format!("{key}.JPEG")),
                image: Some(ImageInfo {
                    format: ImageFormat::Jpeg,
                    width: 500,
                    height: 375,
                }),
                ..SampleRecord::default()
            };
            let mut bodies: Vec<_> = fields
                .iter()
                .map(|(name, data)| (name.as_str(), Body::new(data)))
                .collect();
            let about = About::recorded(&row, "train", names);
            let placed = packer.append(&mut out, &about, &mut bodies).unwrap();
            let sizes: Vec<_> = fields
                .iter()
                .map(|(n, d)| (n.as_str(), d.len() as u64))
                .collect();
            if !layout.defers() {
                assert_eq!(placed.length, layout.sample_bytes(&about, &sizes));
            }
            row.offset = placed.offset;
            row.length = placed.length;
            row.fields = placed.fields;
            record.samples.push(row);
        }
        packer.finish(&mut out).unwrap();
        for late in packer.late() {
            record.samples[late.sample].fields.push(late.field);
        }
        let packed = out.finish().unwrap();
        record.bytes = packed.sum.bytes;
        record.crc32 = packed.sum.crc32;
        (packed.inner, record)
    }

    /// What a walk saw.
    #[derive(Default)]
    pub(super) struct Walked {
        pub(super) rows: Vec<SampleRecord>,
        pub(super) classes: Vec<Option<String>>,
        pub(super) found: Vec<Finding>,
        pub(super) noted: Vec<Finding>,
    }

    impl Visit for Walked {
        fn sample(&mut self, row: SampleRecord, class: Option<String>) {
            self.rows.push(row);
            self.classes.push(class);
        }

        fn found(&mut self, finding: Finding) {
            self.found.push(finding);
        }

        fn noted(&mut self, finding: Finding) {
            self.noted.push(finding);
        }
    }

    pub(super) fn walk(layout: &dyn Layout, mut bytes: &[u8]) -> Walked {
        let mut walked = Walked::default();
        layout.walk("x", "x", &mut bytes, &mut walked).unwrap();
        walked
    }

    #[derive(Default)]
    struct Seen(Vec<Finding>);

    impl Watch for Seen {
        fn piece(&mut self, _: usize, _: usize, _: &[u8]) {}
        fn field_end(&mut self, _: usize, _: usize) {}
        fn finding(&mut self, finding: Finding) {
            self.0.push(finding);
        }
    }

    /// What a check of these bytes against the record finds.
    pub(super) fn check(layout: &dyn Layout, bytes: &[u8], record: &ShardRecord) -> Vec<Finding> {
        check_as(layout, &names(), bytes, record)
    }

    /// The same where samples have these names.
    pub(super) fn check_as(
        layout: &dyn Layout,
        names: &Names,
        bytes: &[u8],
        record: &ShardRecord,
    ) -> Vec<Finding> {
        let mut seen = Seen::default();
        check::check(layout, names, &mut Scanner::new(bytes), record, &mut seen).unwrap();
        seen.0
    }
}
