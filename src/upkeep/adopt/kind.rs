//! Which files are shards, and how each is to be read: by its name, and by its first bytes where they say more.

use bytes::Bytes;

use crate::base::error::{Error, Result};
use crate::format::compress::packed_as;
use crate::format::tfrecord::begins_record;
use crate::model::recipe::{Compression, Cut, Format, Missing, Order, Recipe};
use crate::store::{Sink, at_once};

/// First bytes of a file that tell what it is.
const HEAD_BYTES: u64 = 64;
/// How every Riegeli file begins; ArrayRecord is one (riegeli `doc/riegeli_records_file_format.md`).
const RIEGELI: [u8; 8] = [0x83, 0xAF, 0x70, 0xD1, 0x0D, 0x88, 0x4A, 0x3F];
const PARQUET: &[u8] = b"PAR1";
/// Files named in a message.
const NAMED: usize = 5;

const ZSTD: Compression = Compression::Zstd {
    level: 3,
    seekable: false,
};
const GZIP: Compression = Compression::Gzip { level: 6 };
/// What names of compressed files end in.
const PACKED: [(&str, Compression); 2] = [(".gz", GZIP), (".zst", ZSTD)];
/// What names of shards end in, before that.
const LAYOUTS: [(&str, Format); 5] = [
    (".tar", Format::WebDataset),
    (".tfrecord", Format::TfRecord),
    (".tfrecords", Format::TfRecord),
    (".tfrec", Format::TfRecord),
    (".record", Format::TfRecord),
];

/// A shard of somebody else: its name, its length, and how it is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForeignShard {
    /// Name below the destination.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Its layout, by its name.
    pub format: Format,
    /// Its compression, by its first bytes or its name.
    pub compress: Compression,
}

impl ForeignShard {
    /// What is known of how it was made.
    pub(crate) fn recipe(&self) -> Recipe {
        foreign_recipe(self.format, self.compress, Cut::Shards(1))
    }
}

/// What is known of how shards were made: their layout, and nothing else.
pub(super) fn foreign_recipe(format: Format, compress: Compression, cut: Cut) -> Recipe {
    Recipe {
        name: "dataset".to_owned(),
        format,
        foreign: true,
        compress,
        missing: Missing::Keep,
        order: Order::Listed,
        cut,
        allow_empty: true,
        ..Recipe::default()
    }
}

/// How a file of this name is to be read; `None` if it is no shard.
pub(super) fn kind(name: &str) -> Option<(Format, Compression)> {
    if name.ends_with(".tgz") {
        return Some((Format::WebDataset, GZIP));
    }
    let packed = PACKED
        .iter()
        .find_map(|(suffix, compress)| Some((name.strip_suffix(suffix)?, *compress)));
    let (name, compress) = packed.unwrap_or((name, Compression::None));
    let by_suffix = LAYOUTS.iter().find(|(suffix, _)| name.ends_with(suffix));
    if let Some((_, format)) = by_suffix {
        return Some((*format, compress));
    }
    // `train-00000-of-01024`, as TensorFlow's own tools name shards, with or without something before the numbers.
    let (stem, total) = name.rsplit_once("-of-")?;
    let digits = |text: &str| text.len() >= 5 && text.bytes().all(|b| b.is_ascii_digit());
    let (_, number) = stem.rsplit_once('-')?;
    let numbered = digits(total) && digits(number);
    numbered.then_some((Format::TfRecord, compress))
}

/// A name without what only says how the file is to be read: `a/x.tfrecord-00000-of-00002` is `a/x-00000-of-00002`.
pub(super) fn without_kind(name: &str) -> String {
    let (dir, base) = name
        .rsplit_once('/')
        .map_or(("", name), |(dir, base)| (&name[..dir.len() + 1], base));
    let words = LAYOUTS.iter().map(|(word, _)| *word);
    let words = words.chain(PACKED.iter().map(|(word, _)| *word));
    let mut base = base.to_owned();
    // The longer of two that begin alike first.
    for word in words.rev() {
        let ends = |at: usize| matches!(base.as_bytes().get(at), None | Some(b'-' | b'.'));
        if let Some(at) = base.find(word)
            && ends(at + word.len())
        {
            base.replace_range(at..at + word.len(), "");
        }
    }
    format!("{dir}{base}")
}

/// Whether a file of this name is a shard of this layout, as far as names tell.
pub(crate) fn is_foreign_shard(name: &str, format: Format) -> bool {
    kind(name).is_some_and(|(other, _)| other == format)
}

/// What a file is that is called a shard and is none.
fn otherwise(head: &[u8]) -> Option<&'static str> {
    if head.starts_with(&RIEGELI) {
        Some("an ArrayRecord (a Riegeli file)")
    } else {
        head.starts_with(PARQUET).then_some("a Parquet file")
    }
}

/// The shards in a directory that has no manifest, sorted by name.
///
/// Files that are called shards and are of a format that this program does not walk are an error that names them.
pub(crate) fn foreign_shards(sink: &dyn Sink) -> Result<Vec<ForeignShard>> {
    let shard = |(name, bytes): (String, u64)| {
        let (format, compress) = kind(&name)?;
        Some(ForeignShard {
            name,
            bytes,
            format,
            compress,
        })
    };
    let mut shards: Vec<_> = sink.list("")?.into_iter().filter_map(shard).collect();
    let heads = at_once(sink.requests(), &shards, |shard| {
        match shard.bytes.min(HEAD_BYTES) as usize {
            0 => Ok(Bytes::new()),
            length => sink.range(&shard.name, 0, length),
        }
    })?;
    let mut others = Vec::new();
    for (shard, head) in shards.iter_mut().zip(heads) {
        if shard.compress != Compression::None || begins_record(&head) {
            continue;
        }
        if let Some(packed) = packed_as(&head) {
            shard.compress = packed;
        } else if let Some(what) = otherwise(&head) {
            others.push(format!("\n  {}: {what}", shard.name));
        }
    }
    if others.is_empty() {
        return Ok(shards);
    }
    let more = match others.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    };
    others.truncate(NAMED);
    Err(Error::source_data(format!(
        "{sink}: some files are neither tar nor TFRecord, whatever their names: read them with their own tools, or move them elsewhere{}{more}",
        others.concat()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_known_by_their_names() {
        let plain = Compression::None;
        for (name, format, compress) in [
            ("a/train-000000.tar", Format::WebDataset, plain),
            ("x.tar.gz", Format::WebDataset, GZIP),
            ("x.tgz", Format::WebDataset, GZIP),
            ("x.tar.zst", Format::WebDataset, ZSTD),
            ("train-00000-of-01024", Format::TfRecord, plain),
            ("train-00000-of-01024.gz", Format::TfRecord, GZIP),
            ("x-train.tfrecord-00000-of-00016", Format::TfRecord, plain),
            ("x.tfrecord", Format::TfRecord, plain),
            ("x.tfrecords.gz", Format::TfRecord, GZIP),
            ("x.tfrec", Format::TfRecord, plain),
            ("x.record", Format::TfRecord, plain),
        ] {
            assert_eq!(kind(name), Some((format, compress)), "{name}");
        }
        for name in [
            "x.json",
            "one-of-01024",
            "train-1-of-2",
            "x.tar.idx",
            "x.gz",
        ] {
            assert_eq!(kind(name), None, "{name}");
        }
    }

    #[test]
    fn names_are_told_apart_by_what_is_not_their_kind() {
        for (name, without) in [
            ("a/x.tfrecord-00000-of-00002", "a/x-00000-of-00002"),
            ("a/x.tfrecords.gz", "a/x"),
            ("a.tar/x.v2.tar", "a.tar/x.v2"),
            ("my.recordings.tfrec", "my.recordings"),
            ("train-00000-of-01024", "train-00000-of-01024"),
        ] {
            assert_eq!(without_kind(name), without);
        }
    }
}
