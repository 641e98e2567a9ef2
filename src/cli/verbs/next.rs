//! What comes after a verb, ready to be pasted: command lines, and a line of Python that reads the dataset through its manifest.

use crate::base::text::quoted;
use crate::cli::settings::Running;
use crate::model::manifest::{MANIFEST, Manifest};
use crate::model::recipe::{Compression, Format};

/// A word of a command line that the user has to fill in.
pub(super) const SOURCE: &str = "SRC";

/// `shardpack VERB DST …` with these words behind it, which are written as they are, and with how to reach S3 if that is where one leads.
pub(super) fn command(verb: &str, destination: &str, words: &[&str], running: &Running) -> String {
    let mut line = format!("shardpack {verb} {}", quoted(destination));
    for word in words {
        line.push(' ');
        line.push_str(&match *word == SOURCE {
            true => SOURCE.to_owned(),
            false => quoted(word),
        });
    }
    if line.contains("s3://") {
        line.push_str(&running.reach);
    }
    line
}

/// Python that reads one split, `train` if there is one. The brace pattern of shards would read removed samples after a rebuild.
pub(super) fn reading(manifest: &Manifest, destination: &str) -> Option<String> {
    if manifest.recipe.foreign {
        return None;
    }
    let mut names = manifest.splits.iter().map(|split| split.name.as_str());
    let split = names.position(|name| name == "train").unwrap_or(0);
    let place = destination.trim_end_matches('/');
    let is_remote = place.starts_with("s3://");
    let literal = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let open = match is_remote {
        true => "fsspec.open",
        false => "open",
    };
    let text = literal(&format!("{place}/{MANIFEST}"));
    let manifest_of = match is_remote {
        true => format!("{open}({text}).open()"),
        false => format!("{open}({text})"),
    };
    let compress = manifest.recipe.compress;
    let before = match (manifest.recipe.format, is_remote, compress) {
        (Format::WebDataset, true, _) => "pipe:aws s3 cp --quiet ",
        (Format::WebDataset, false, Compression::Zstd { .. }) => "pipe:zstd -dc ",
        _ => "",
    };
    let after = match (manifest.recipe.format, is_remote, compress) {
        (Format::WebDataset, true, Compression::Zstd { .. }) => " + \" - | zstd -dc\"",
        (Format::WebDataset, true, _) => " + \" -\"",
        _ => "",
    };
    let shards = format!(
        "[{} + s[\"name\"]{after} for s in json.load({manifest_of})[\"splits\"][{split}][\"shards\"]]",
        literal(&format!("{before}{place}/"))
    );
    Some(match manifest.recipe.format {
        Format::WebDataset => format!("wds.WebDataset({shards}, shardshuffle=100)"),
        Format::TfRecord => match compress {
            Compression::None => format!("tf.data.TFRecordDataset({shards})"),
            Compression::Gzip { .. } => {
                format!("tf.data.TFRecordDataset({shards}, compression_type=\"GZIP\")")
            }
            // TensorFlow has no zstd.
            Compression::Zstd { .. } => return None,
        },
        Format::Parquet => {
            format!("datasets.load_dataset(\"parquet\", data_files={shards}, split=\"train\")")
        }
    })
}
