//! The options in which two recipes differ, in the words of the command line.

use serde::Serialize;

use crate::base::text::show;
use crate::base::units::exact_bytes;
use crate::model::recipe::{Compression, Cut, MetadataColumns, Recipe};

/// A line for each option that differs: the flag, what it was, and what it is now.
pub(crate) fn differences(before: &Recipe, now: &Recipe) -> Vec<String> {
    let differ = |flag: &str, was: &str, is: &str| format!("{flag}: was {was}, now {is}");
    let options = options(before).into_iter().zip(options(now));
    let mut lines: Vec<String> = options
        .filter(|((_, was), (_, is))| was != is)
        .map(|((flag, was), (_, is))| differ(flag, &was, &is))
        .collect();
    if before.cut != now.cut {
        let ((was_flag, was), (flag, is)) = (cut(before.cut), cut(now.cut));
        let was = match was_flag == flag {
            true => was,
            false => format!("{was_flag} {was}"),
        };
        lines.insert(0, differ(flag, &was, &is));
    }
    lines
}

fn cut(cut: Cut) -> (&'static str, String) {
    match cut {
        Cut::ShardBytes(bytes) => ("--shard-size", exact_bytes(bytes)),
        Cut::Shards(shards) => ("--shards", shards.to_string()),
        Cut::ShardSamples(samples) => ("--shard-samples", samples.to_string()),
    }
}

fn words(words: &[String]) -> String {
    match words.is_empty() {
        true => "none".to_owned(),
        false => words.join(","),
    }
}

/// A word of those that a flag takes, under which it is stored too.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

fn on(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

/// Each option but the size of shards, by its flag. Taken apart whole, so that none is forgotten.
fn options(recipe: &Recipe) -> Vec<(&'static str, String)> {
    let Recipe {
        name,
        format,
        // Refused before: there are no options to compare.
        foreign: _,
        schema,
        label_base,
        compress,
        indexes,
        missing,
        order,
        seed,
        cut: _,
        json,
        sha256,
        validate,
        layout,
        metadata:
            MetadataColumns {
                label,
                caption,
                skip_missing,
            },
        splits,
        include,
        exclude,
        labels,
        allow_empty,
        select,
    } = recipe;
    let column = |column: &Option<String>| column.clone().unwrap_or_else(|| "none".to_owned());
    let splits: Vec<String> = splits
        .iter()
        .map(|(name, path)| format!("{name}={}", show(path.as_bytes())))
        .collect();
    let seekable = matches!(compress, Compression::Zstd { seekable: true, .. });
    let rows = if *skip_missing { "skip" } else { "fail" };
    let file = if *labels { "a file" } else { "none" };
    let mut options = vec![
        ("--format", word(format)),
        ("--schema", word(schema)),
        ("--label-base", label_base.to_string()),
        ("--compress", compress.to_string()),
        ("--zstd-seekable", on(seekable)),
        ("--index", words(indexes)),
        ("--order", word(order)),
        ("--seed", seed.to_string()),
        ("--add-json", on(*json)),
        ("--sha256", on(*sha256)),
        ("--name", name.clone()),
        ("--layout", word(layout)),
        ("--split", words(&splits)),
        ("--labels", file.to_owned()),
        ("--label-column", column(label)),
        ("--caption-column", column(caption)),
        ("--missing-rows", rows.to_owned()),
        ("--include", words(include)),
        ("--exclude", words(exclude)),
        ("--missing-fields", word(missing)),
        ("--allow-empty", on(*allow_empty)),
        ("--validate", word(validate)),
    ];
    let said = |said: String| {
        if said.is_empty() {
            "none".to_owned()
        } else {
            said
        }
    };
    // A name after `--split` and a place after it are told as two.
    let chosen = select.flags().into_iter();
    options.extend(chosen.map(|(flag, text)| (flag, said(text))));
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_differ_are_told_as_they_are_typed() {
        let before = Recipe::default();
        let now = Recipe {
            cut: Cut::ShardBytes(60_000),
            seed: 4,
            order: crate::model::recipe::Order::Listed,
            validate: crate::base::image::Validate::Decode,
            json: true,
            indexes: vec!["dali".to_owned(), "wids".to_owned()],
            ..Recipe::default()
        };
        assert_eq!(
            differences(&before, &now),
            [
                "--shard-size: was 1GB, now 60kB",
                "--index: was none, now dali,wids",
                "--order: was shuffled, now listed",
                "--seed: was 0, now 4",
                "--add-json: was off, now on",
                "--validate: was header, now decode",
            ]
        );
        let shards = Recipe {
            cut: Cut::Shards(4),
            ..Recipe::default()
        };
        assert_eq!(
            differences(&before, &shards),
            ["--shards: was --shard-size 1GB, now 4"]
        );
        assert!(differences(&now, &now).is_empty());
    }
}
