//! Which part of a source is taken: the options that choose samples, and what becomes of their labels and splits.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::base::units::{count_text, exact_bytes};

/// Classes named one by one in words.
const NAMED: usize = 8;

/// A share of a whole, in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Share(u32);

impl Share {
    /// All of it.
    pub(crate) const WHOLE: u32 = 1_000_000_000;

    /// So many billionths, at least one and at most all.
    pub(crate) fn new(billionths: u32) -> Option<Self> {
        (1..=Self::WHOLE)
            .contains(&billionths)
            .then_some(Self(billionths))
    }

    /// A share as people write it: `0.1` or `10%`; `None` if it is none, or finer than a billionth.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (number, percent) = match text.strip_suffix('%') {
            Some(number) => (number, 2),
            None => (text, 0),
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let decimals = 9 - percent;
        if (whole.is_empty() && part.is_empty()) || !digits(whole) || !digits(part) {
            return None;
        }
        let part = part.trim_end_matches('0');
        let billionths = format!("{whole}{part:0<decimals$}");
        match part.len() <= decimals {
            true => Self::new(billionths.parse().ok()?),
            false => None,
        }
    }

    /// How many billionths it is.
    pub(crate) fn billionths(self) -> u32 {
        self.0
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Self::WHOLE => f.write_str("1"),
            part => {
                let digits = format!("{part:09}");
                write!(f, "0.{}", digits.trim_end_matches('0'))
            }
        }
    }
}

/// Keys of samples that a file lists, as far as a recipe knows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListedKeys {
    /// How many there are.
    pub count: u64,
    /// SHA-256 of them, sorted, each with a newline.
    pub sha256: String,
}

/// A part of a split that samples are divided into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SplitShare {
    /// Name of the split.
    pub name: String,
    /// How much of all samples it has.
    pub share: Share,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Which samples of a source are taken; all if nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Selection {
    /// Names of classes, or globs of such.
    #[serde(skip_serializing_if = "is_default")]
    pub classes: Vec<String>,
    /// The samples with these keys.
    #[serde(skip_serializing_if = "is_default")]
    pub keys: Option<ListedKeys>,
    /// Names of splits.
    #[serde(skip_serializing_if = "is_default")]
    pub splits: Vec<String>,
    /// Bytes of the image at least.
    #[serde(skip_serializing_if = "is_default")]
    pub min_bytes: Option<u64>,
    /// Bytes of the image at most.
    #[serde(skip_serializing_if = "is_default")]
    pub max_bytes: Option<u64>,
    /// Pixels of the shorter side at least.
    #[serde(skip_serializing_if = "is_default")]
    pub min_side: Option<u32>,
    /// Pixels of the longer side at most.
    #[serde(skip_serializing_if = "is_default")]
    pub max_side: Option<u32>,
    /// This part of what is left then.
    #[serde(skip_serializing_if = "is_default")]
    pub fraction: Option<Share>,
    /// Samples of each class at most, after that.
    #[serde(skip_serializing_if = "is_default")]
    pub per_class: Option<u64>,
    /// Whether the classes that are left are numbered from 0.
    #[serde(skip_serializing_if = "is_default")]
    pub relabel: bool,
    /// The splits that samples are divided into, instead of those that they had.
    #[serde(skip_serializing_if = "is_default")]
    pub resplit: Vec<SplitShare>,
    /// Whether each class is divided so.
    #[serde(skip_serializing_if = "is_default")]
    pub stratify: bool,
}

impl Selection {
    /// Whether the sizes of images decide, in pixels.
    pub(crate) fn asks_sides(&self) -> bool {
        self.min_side.is_some() || self.max_side.is_some()
    }

    /// The flags that say it, each with what it says.
    pub(crate) fn flags(&self) -> Vec<(&'static str, String)> {
        let Self {
            classes,
            keys,
            splits,
            min_bytes,
            max_bytes,
            min_side,
            max_side,
            fraction,
            per_class,
            relabel,
            resplit,
            stratify,
        } = self;
        let bytes = |bytes: &Option<u64>| bytes.map_or_else(String::new, exact_bytes);
        let side = |side: &Option<u32>| side.map_or_else(String::new, |side| side.to_string());
        let on = |is_on: bool| if is_on { "on" } else { "" }.to_owned();
        let classes = match classes.len() {
            0..=NAMED => classes.join(","),
            count => format!(
                "{} ({} in all, digest {})",
                classes[..NAMED].join(","),
                count_text(count as u64),
                &digest(classes.iter().map(String::as_str))[..12]
            ),
        };
        let keys = keys.as_ref().map_or_else(String::new, |keys| {
            let (count, sha256) = (count_text(keys.count), &keys.sha256);
            format!("{count} keys, digest {}", &sha256[..sha256.len().min(12)])
        });
        let resplit = resplit.iter();
        let resplit = resplit.map(|part| format!("{}={}", part.name, part.share));
        vec![
            ("--class", classes),
            ("--keys", keys),
            ("--split", splits.join(",")),
            ("--min-bytes", bytes(min_bytes)),
            ("--max-bytes", bytes(max_bytes)),
            ("--min-side", side(min_side)),
            ("--max-side", side(max_side)),
            (
                "--fraction",
                fraction.map_or_else(String::new, |share| share.to_string()),
            ),
            (
                "--per-class",
                per_class.map_or_else(String::new, |count| count.to_string()),
            ),
            ("--relabel", on(*relabel)),
            ("--resplit", resplit.collect::<Vec<_>>().join(",")),
            ("--stratify", on(*stratify)),
        ]
    }

    /// The same in words; empty if all is taken.
    pub(crate) fn words(&self) -> String {
        let flags = self.flags().into_iter();
        let flags = flags.filter(|(_, said)| !said.is_empty());
        let words = flags.map(|(flag, said)| match said.as_str() {
            "on" => flag.to_owned(),
            said => format!("{flag} {said}"),
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// SHA-256 of these lines, each with a newline.
pub(crate) fn digest<'l>(lines: impl Iterator<Item = &'l str>) -> String {
    let mut hasher = Sha256::new();
    for line in lines {
        hasher.update(line);
        hasher.update("\n");
    }
    crate::base::text::hex(&hasher.finalize())
}

/// What a dataset was made from, where that was one too, or of what its shards are a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Derivation {
    /// Name of the dataset.
    pub name: String,
    /// SHA-256 of its manifest, 64 hexadecimal digits.
    pub manifest: String,
    /// Which part of it was taken, the same words for the same choice; empty for all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selection: String,
    /// Whether the shards were copied as they are: only another copy can go on with them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copied: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_written_as_a_part_or_in_percent() {
        for (text, billionths) in [
            ("0.1", 100_000_000),
            (".25", 250_000_000),
            ("10%", 100_000_000),
            ("12.5%", 125_000_000),
            ("1", 1_000_000_000),
            ("100%", 1_000_000_000),
            ("0.000000001", 1),
            ("0.10000000000", 100_000_000),
        ] {
            let share = Share::parse(text).expect(text);
            assert_eq!(share.billionths(), billionths, "{text}");
            assert_eq!(Share::parse(&share.to_string()), Some(share));
        }
        for text in [
            "",
            ".",
            "%",
            "0",
            "1.1",
            "101%",
            "-0.1",
            "1e-3",
            "0.0000000001",
            "a",
        ] {
            assert_eq!(Share::parse(text), None, "{text}");
        }
    }
}
