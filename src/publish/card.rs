//! The dataset card: `README.md` beside the shards, with HuggingFace `configs`, class names and ways to read the data.
//!
//! Source of the header: HuggingFace "Dataset cards" and "Manual configuration". The explicit `configs` keep the Hub's
//! detection right whatever lies beside the shards.

use std::fmt::Write;

use crate::base::units::{bytes_text, classes, count_text, counted};
use crate::format::RecipeLayout as _;
use crate::model::manifest::{Manifest, SplitEntry};
use crate::model::recipe::{Arrangement, Compression, Format};

/// Name of the card. People may complete it.
pub(crate) const CARD: &str = "README.md";

/// Renders the card.
pub(crate) fn render_card(manifest: &Manifest) -> String {
    let mut card = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut card, manifest);
    card
}

/// The card that the first version gave datasets that HuggingFace does not read: it did not name their shards to it.
pub(crate) fn earlier_card(manifest: &Manifest) -> Option<String> {
    let zstd = matches!(manifest.recipe.compress, Compression::Zstd { .. });
    let unread = manifest.recipe.format == Format::TfRecord || zstd;
    unread.then(|| {
        let mut card = String::new();
        // Writing to a string cannot fail.
        let _ = body(&mut card, manifest);
        card
    })
}

fn write(card: &mut String, manifest: &Manifest) -> std::fmt::Result {
    configs(card, manifest)?;
    body(card, manifest)
}

fn body(card: &mut String, manifest: &Manifest) -> std::fmt::Result {
    writeln!(card, "# {}\n", manifest.name)?;
    writeln!(
        card,
        "{} in {}, {} in {}.
",
        counted(manifest.samples, "sample"),
        classes(manifest.names.classes.len()),
        bytes_text(manifest.bytes),
        counted(manifest.shards().count() as u64, "shard"),
    )?;
    writeln!(
        card,
        "| split | samples | shards | bytes |\n|---|---:|---:|---:|"
    )?;
    for split in &manifest.splits {
        writeln!(
            card,
            "| {} | {} | {} | {} |",
            split.name,
            count_text(split.samples),
            split.shards.len(),
            count_text(split.bytes)
        )?;
    }
    if !manifest.skipped.is_empty() {
        writeln!(
            card,
            "\n{} samples of the source were left out; `manifest.json` lists them with the reason.",
            count_text(manifest.skipped.len() as u64)
        )?;
    }
    examples(card, manifest)?;
    if manifest.names.classes.is_empty() {
        return Ok(());
    }
    if !manifest.names.texts.is_empty() {
        writeln!(
            card,
            "\n## Classes\n\n| label | class | name |\n|---:|---|---|"
        )?;
        for (label, (class, text)) in manifest
            .names
            .classes
            .iter()
            .zip(&manifest.names.texts)
            .enumerate()
        {
            writeln!(card, "| {label} | `{}` | {} |", cell(class), cell(text))?;
        }
        return Ok(());
    }
    writeln!(card, "\n## Classes\n\n| label | class |\n|---:|---|")?;
    for (label, class) in manifest.names.classes.iter().enumerate() {
        writeln!(card, "| {label} | `{}` |", cell(class))?;
    }
    Ok(())
}

/// Text as a cell of a table holds it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('`', "'")
}

/// What HuggingFace is to load. Where it cannot, it fails over these names, as for TFRecords: without any it would take the
/// indexes for the data.
fn configs(card: &mut String, manifest: &Manifest) -> std::fmt::Result {
    writeln!(card, "---\nconfigs:\n- config_name: default\n  data_files:")?;
    for split in &manifest.splits {
        match pattern(manifest, split) {
            Some(pattern) => writeln!(card, "  - split: {}\n    path: {pattern}", split.name)?,
            None => {
                writeln!(card, "  - split: {}\n    path:", split.name)?;
                for shard in &split.shards {
                    writeln!(card, "    - {}", shard.name)?;
                }
            }
        }
    }
    writeln!(card, "---\n")
}

/// A glob of a split's shards, if they are numbered without a gap: else others may lie between them.
fn pattern(manifest: &Manifest, split: &SplitEntry) -> Option<String> {
    let extension = manifest.recipe.extension();
    let numbered = split.shards.iter().enumerate().all(|(number, shard)| {
        shard.name == format!("data/{}-{number:05}.{extension}", split.name)
    });
    (numbered && !manifest.recipe.foreign).then(|| format!("data/{}-*.{extension}", split.name))
}

/// Python that makes `shards` the names of a split's shards, each behind `before`.
fn names_from_manifest(split: &SplitEntry, before: &str) -> String {
    let before = match before {
        "" => String::new(),
        before => format!("\"{before}\" + "),
    };
    format!(
        r#"manifest = json.load(open("manifest.json"))
shards = [{before}shard["name"] for split in manifest["splits"] if split["name"] == "{}" for shard in split["shards"]]"#,
        split.name
    )
}

fn examples(card: &mut String, manifest: &Manifest) -> std::fmt::Result {
    // ImageNet's test images have no labels, which an example would have to do without.
    let known = matches!(
        manifest.recipe.layout,
        Arrangement::Imagenet | Arrangement::Kaggle
    );
    let mut splits = manifest.splits.iter();
    let labelled = splits.find(|split| !(known && split.name == "test"));
    let split = labelled.or(manifest.splits.first());
    let Some(split) = split.filter(|_| !manifest.recipe.foreign) else {
        return Ok(());
    };
    writeln!(card, "\n## Reading it\n")?;
    if pattern(manifest, split).is_none() {
        writeln!(
            card,
            "Shards of earlier snapshots may lie beside those of this one (`shardpack gc . --keep 1` removes them): read those that `manifest.json` names.\n"
        )?;
    }
    match manifest.recipe.format {
        Format::WebDataset => tar_examples(card, manifest, split)?,
        Format::TfRecord => tensorflow_example(card, manifest, split)?,
        Format::Parquet => writeln!(
            card,
            r#"`image` is the image's file, unchanged, with its name; `label` is the number of its class.

HuggingFace datasets:

```python
from datasets import load_dataset

dataset = load_dataset(".", split="{name}", streaming=True)
```

DuckDB (pandas, polars and pyarrow read the same files):

```sql
SELECT label, image.path, octet_length(image.bytes) FROM 'data/{name}-*.parquet';
```"#,
            name = split.name
        )?,
    }
    writeln!(
        card,
        r#"
Where every sample lies, with DuckDB (pandas and polars read the same files):

```sql
SELECT class, count(*) FROM 'index/*.parquet' GROUP BY class;
```

Whether it is intact: `shardpack verify . --level data`."#
    )
}

fn tensorflow_example(
    card: &mut String,
    manifest: &Manifest,
    split: &SplitEntry,
) -> std::fmt::Result {
    let globbed = pattern(manifest, split);
    let (image, label) = manifest.recipe.schema.features();
    let compression = match manifest.recipe.compress {
        Compression::None => "",
        Compression::Gzip { .. } => ", compression_type=\"GZIP\"",
        Compression::Zstd { .. } => {
            return writeln!(
                card,
                "Each record is a `tf.train.Example` with `{image}` and `{label}`. TensorFlow does not read zstd: unpack the files with `zstd -d` first."
            );
        }
    };
    writeln!(
        card,
        r#"Each record is a `tf.train.Example`: `{image}` is the image's file, unchanged, and `{label}` the number of its class{base}.

TensorFlow:

```python
{import}import tensorflow as tf

features = {{
    "{image}": tf.io.FixedLenFeature([], tf.string),
    "{label}": tf.io.FixedLenFeature([], tf.int64),
}}
{shards}
dataset = tf.data.TFRecordDataset(shards{compression}).map(lambda record: tf.io.parse_single_example(record, features))
for sample in dataset:
    image, label = tf.io.decode_image(sample["{image}"]), int(sample["{label}"])
```"#,
        base = match manifest.recipe.label_base {
            0 => "",
            _ => ", counted from 1",
        },
        import = if globbed.is_some() {
            ""
        } else {
            "import json\n"
        },
        shards = match &globbed {
            Some(glob) => format!("shards = tf.io.gfile.glob(\"{glob}\")"),
            None => names_from_manifest(split, ""),
        },
    )
}

fn tar_examples(card: &mut String, manifest: &Manifest, split: &SplitEntry) -> std::fmt::Result {
    writeln!(
        card,
        "Each sample is a run of tar members with one key: the image (`jpg`, `png`, …), unchanged{}.",
        match manifest.names.classes.is_empty() {
            true => "",
            false => ", and `cls`, its label as a decimal number",
        }
    )?;
    webdataset_example(card, manifest, split)?;
    // Python before 3.14 has no zstd.
    let zstd = matches!(manifest.recipe.compress, Compression::Zstd { .. });
    if zstd {
        return Ok(());
    }
    writeln!(
        card,
        r#"
HuggingFace datasets:

```python
from datasets import load_dataset

dataset = load_dataset(".", split="{name}", streaming=True)
```

Plain Python:

```python
import json, tarfile

manifest = json.load(open("manifest.json"))
for split in manifest["splits"]:
    for shard in split["shards"]:
        with tarfile.open(shard["name"]) as tar:
            for member in tar:
                content = tar.extractfile(member).read()
```"#,
        name = split.name
    )
}

fn webdataset_example(
    card: &mut String,
    manifest: &Manifest,
    split: &SplitEntry,
) -> std::fmt::Result {
    let name = &split.name;
    let last = split.shards.len().saturating_sub(1);
    let extension = manifest.recipe.extension();
    let range = match last {
        0 => format!("data/{name}-00000.{extension}"),
        _ => format!("data/{name}-{{00000..{last:05}}}.{extension}"),
    };
    let listed = pattern(manifest, split).is_none();
    let before = match manifest.recipe.compress {
        Compression::Zstd { .. } => "pipe:zstd -dc ",
        _ => "",
    };
    let (imports, names, shards) = match listed {
        true => (
            "import json\n",
            names_from_manifest(split, before) + "\n",
            "shards".to_owned(),
        ),
        false => ("", String::new(), format!("\"{before}{range}\"")),
    };
    let sample = match manifest.names.classes.is_empty() {
        true => r#"image = sample.get("jpg") or sample.get("png")"#,
        false => r#"label, image = int(sample["cls"]), sample.get("jpg") or sample.get("png")"#,
    };
    writeln!(
        card,
        r#"
WebDataset:

```python
{imports}import webdataset as wds

{names}dataset = wds.WebDataset({shards}, shardshuffle=False)
for sample in dataset:
    {sample}
```"#
    )
}
