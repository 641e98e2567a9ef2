//! Keys of samples that a file lists: one a line, or the column `key` of a table.

use std::cell::Cell;

use bytes::Bytes;

use crate::base::error::{Error, Result};
use crate::model::listing::{Problem, ProblemKind, render};
use crate::model::problems::Problems;
use crate::model::sample::SourcePath;
use crate::model::selection::{ListedKeys, digest};
use crate::source::metadata::{Refusal, Table, texts_in};
use crate::source::samples::Scan;
use crate::store::Source;

/// The column of a table that has keys.
const COLUMN: &str = "key";
/// Endings of the names of tables.
const TABLES: [&str; 3] = [".csv", ".jsonl", ".parquet"];

/// Keys, sorted, each once.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    name: String,
    keys: Vec<String>,
}

impl Keys {
    /// Those in a file of this name and content. A table may take so much memory besides.
    ///
    /// # Errors
    ///
    /// [`Kind::Source`](crate::base::error::Kind::Source) for a file that lists none, or a table without the column `key`.
    pub(crate) fn parse(name: &str, content: Bytes, most_bytes: u64) -> Result<Self> {
        let lower = name.to_ascii_lowercase();
        let mut keys = match TABLES.iter().any(|end| lower.ends_with(end)) {
            true => {
                let table = Table {
                    name: name.to_owned(),
                    dir: Vec::new(),
                    bytes: content,
                };
                let keys = texts_in(&table, COLUMN, most_bytes);
                keys.map_err(|refusal| match refusal {
                    Refusal::Data(what) => Error::source_data(what),
                    Refusal::Memory(what) => Error::usage(format!("{what}, or raise `--memory`")),
                })?
            }
            false => {
                let text = std::str::from_utf8(&content).map_err(|_| {
                    Error::source_data(format!("{name}: not UTF-8: write one key a line"))
                })?;
                let lines = text.trim_start_matches('\u{FEFF}').lines();
                let lines = lines.map(str::trim).filter(|line| !line.is_empty());
                lines.map(str::to_owned).collect()
            }
        };
        keys.sort_unstable();
        keys.dedup();
        match keys.is_empty() {
            true => Err(Error::source_data(format!(
                "{name}: no keys in it: write one a line, or a table with a column `{COLUMN}`"
            ))),
            false => Ok(Self {
                name: name.to_owned(),
                keys,
            }),
        }
    }

    /// What a recipe knows of them.
    pub(crate) fn listed(&self) -> ListedKeys {
        ListedKeys {
            count: self.keys.len() as u64,
            sha256: digest(self.keys.iter().map(String::as_str)),
        }
    }

    /// Leaves the samples with these keys; refuses keys that none has, with all of them told.
    pub(super) fn choose(
        &self,
        scan: &mut Scan,
        source: &dyn Source,
        problems: &Problems,
    ) -> Result<()> {
        let is_met: Vec<Cell<bool>> = vec![Cell::new(false); self.keys.len()];
        scan.retain(|scan, entry| {
            let found = self.keys.binary_search(&scan.key(entry));
            found.inspect(|&at| is_met[at].set(true)).is_ok()
        });
        let unmet = self.keys.iter().zip(&is_met).filter(|(_, met)| !met.get());
        let mut unmet: Vec<Problem> = unmet
            .map(|(key, _)| {
                Problem::new(ProblemKind::UnknownKey, SourcePath::new(key.as_str()), "")
            })
            .collect();
        if unmet.is_empty() {
            return Ok(());
        }
        for Problem { kind, path, detail } in &unmet {
            problems.tell(kind.explain().0, path, detail);
        }
        Err(Error::source_data(format!(
            "{}: {} of {} keys of {} are not there, nothing was written{}",
            source,
            unmet.len(),
            self.keys.len(),
            self.name,
            render(&mut unmet)
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_in_lines_or_in_the_column_of_a_table() {
        let keys = |name: &str, text: &'static str| {
            Keys::parse(name, Bytes::from_static(text.as_bytes()), 1 << 20)
        };
        let lines = keys("keys.txt", "b/2\r\n\n a/1 \nb/2\n").unwrap();
        assert_eq!(lines.keys, ["a/1", "b/2"]);
        let table = keys("keys.csv", "n,key\n1,b/2\n2,a/1\n").unwrap();
        assert_eq!(table.keys, lines.keys);
        assert_eq!(table.listed(), lines.listed());
        let text = keys("keys.csv", "a/1\nb/2\n").unwrap_err().to_string();
        assert!(text.contains("no column `key`"), "{text}");
        assert!(keys("keys.txt", "\n").is_err());
    }
}
