//! Small things that several indexes need: names of shards taken apart, JSON, and which shards readers of tars take.

use crate::base::error::{Error, Result};
use crate::model::recipe::{Compression, Format, Recipe};
use crate::publish::readers::exporter::Splits;

/// Plain tar, which these readers map into memory or seek in.
pub(super) fn plain_tar(recipe: &Recipe, reader: &str) -> Result<(), String> {
    match (recipe.format, recipe.compress) {
        (Format::WebDataset, Compression::None) => Ok(()),
        (Format::WebDataset, _) => Err(format!(
            "{reader} reads plain tar only: drop `--compress` or drop this index"
        )),
        _ => Err(format!(
            "{reader} reads WebDataset tar: use `--format wds` or drop this index"
        )),
    }
}

/// The last part of a name.
pub(super) fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The directory of a name, with its slash; nothing for a name at the root.
pub(super) fn directory(name: &str) -> &str {
    name.rsplit_once('/')
        .map_or("", |(dir, _)| &name[..dir.len() + 1])
}

/// The deepest directory that all these shards lie in or below, with its slash; nothing for the root.
pub(super) fn common_directory<'a>(splits: &Splits<'a>) -> &'a str {
    let mut names = splits.values().flatten().copied();
    let first = names.next().map_or("", directory);
    names.fold(first, |mut common, name| {
        while !name.starts_with(common) {
            common = directory(common.trim_end_matches('/'));
        }
        common
    })
}

/// A shard's name without the extension that its readers replace by their own. Of a name that ends otherwise, as
/// `x.tfrecord-00000-of-00002`, all of it: the shards of a dataset would else share one file.
pub(super) fn stem(shard: &str) -> &str {
    let extension = |known| shard.strip_suffix(known);
    extension(".tar")
        .or_else(|| extension(".tfrecord"))
        .unwrap_or(shard)
}

/// JSON as these files have it: indented, with a newline at the end.
pub(super) fn json(value: &impl serde::Serialize) -> Result<Vec<u8>> {
    let mut text =
        serde_json::to_vec_pretty(value).map_err(|error| Error::failed(error.to_string()))?;
    text.push(b'\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::manifest::{Manifest, ShardEntry};
    use crate::publish::readers::exporter::{splits_of, vector};

    fn manifest() -> Manifest {
        let text = r#"{"kind":"shardpack-manifest","version":1,"name":"x","snapshot":1,"plan":"0","recipe":{"name":"x","format":"wds",
            "order":"listed","seed":0,"cut":{"shards":1},"json":false,"sha256":false,"validate":"header","splits":[],"include":[],
            "exclude":[],"labels":false,"allow_empty":false},"samples":0,"bytes":0,"classes":[],"splits":[{"name":"train","samples":0,
            "bytes":0,"shards":[]}],"skipped":[],"odd":[]}"#;
        Manifest::decode("m", text.as_bytes()).unwrap()
    }

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(base("data/train-00000.tar"), "train-00000.tar");
        assert_eq!(directory("data/train-00000.tar"), "data/");
        assert_eq!(directory("train-00000.tar"), "");
        assert_eq!(stem("data/train-00000.tar"), "data/train-00000");
        let numbered = "x.tfrecord-00000-of-00002";
        assert_eq!(stem(numbered), numbered);
        assert_eq!(stem("x.tfrecords"), "x.tfrecords");
    }

    #[test]
    fn the_directory_of_all_shards_is_the_deepest_that_they_share() {
        let of = |names: &[&str]| {
            let mut manifest = manifest();
            let (entry, _) = vector();
            let named = |name: &&str| ShardEntry {
                name: (*name).to_owned(),
                ..entry.clone()
            };
            manifest.splits[0].shards = names.iter().map(named).collect();
            common_directory(&splits_of(&manifest)).to_owned()
        };
        assert_eq!(of(&["data/a.tar", "data/b.tar"]), "data/");
        assert_eq!(of(&["a/train/0.tar", "a/val/0.tar"]), "a/");
        assert_eq!(of(&["train/0.tar", "val/0.tar"]), "");
        assert_eq!(of(&["ab/0.tar", "a/0.tar"]), "");
        assert_eq!(of(&["0.tar", "a/0.tar"]), "");
    }
}
