//! The dataset card: `README.md` beside the shards, with HuggingFace `configs`, class names and ways to read the data.
//!
//! Source of the header: HuggingFace "Dataset cards" and "Manual configuration". The explicit `configs` keep the Hub's
//! detection right whatever lies beside the shards.

use std::fmt::Write;

use crate::manifest::Manifest;
use crate::units::{bytes_text, classes, count_text, counted};

/// Renders the card.
pub fn render(manifest: &Manifest) -> String {
    let mut card = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut card, manifest);
    card
}

fn write(card: &mut String, manifest: &Manifest) -> std::fmt::Result {
    let extension = manifest.recipe.extension();
    writeln!(card, "---\nconfigs:\n- config_name: default\n  data_files:")?;
    for split in &manifest.splits {
        writeln!(
            card,
            "  - split: {0}\n    path: data/{0}-*.{extension}",
            split.name
        )?;
    }
    writeln!(card, "---\n\n# {}\n", manifest.name)?;
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
    writeln!(card, "\n## Classes\n\n| label | class |\n|---:|---|")?;
    for (label, class) in manifest.names.classes.iter().enumerate() {
        writeln!(
            card,
            "| {label} | `{}` |",
            class.replace('|', "\\|").replace('`', "'")
        )?;
    }
    Ok(())
}

fn examples(card: &mut String, manifest: &Manifest) -> std::fmt::Result {
    let Some(split) = manifest.splits.first() else {
        return Ok(());
    };
    let name = &split.name;
    let last = split.shards.len().saturating_sub(1);
    let range = if last == 0 {
        format!("data/{name}-00000.tar")
    } else {
        format!("data/{name}-{{00000..{last:05}}}.tar")
    };
    writeln!(
        card,
        r#"
## Reading it

Each sample is a run of tar members with one key: the image (`jpg`, `png`, …), unchanged, and `cls`, its label as a decimal number.

WebDataset:

```python
import webdataset as wds

dataset = wds.WebDataset("{range}", shardshuffle=False)
for sample in dataset:
    label, image = int(sample["cls"]), sample.get("jpg") or sample.get("png")
```

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
```

Where every sample lies, with DuckDB (pandas and polars read the same files):

```sql
SELECT class, count(*) FROM 'index/*.parquet' GROUP BY class;
```

Whether it is intact: `shardpack verify . --level data`."#
    )
}
