//! What lies beside the manifest, made again: reader indexes and `SHA256SUMS`.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::error::{Kind, Result};
use crate::model::manifest::{IndexFile, Manifest};
use crate::publish::companions::{SUMS, remake_companions};
use crate::upkeep::repair::guard::Guard;
use crate::upkeep::repair::{RepairOutcome, Repairer};

impl Repairer<'_> {
    /// Makes what lies beside the manifest again where that is damaged.
    pub(super) fn mend_companions(
        &self,
        manifest: &Manifest,
        found: &BTreeMap<&str, String>,
        guard: &Guard<'_>,
        outcome: &mut RepairOutcome,
    ) -> Result<()> {
        let indexes = manifest.indexes.iter();
        let damaged: Vec<&IndexFile> = indexes
            .filter(|file| found.contains_key(file.name.as_str()))
            .collect();
        let names = damaged.iter().map(|file| file.name.as_str());
        let names: BTreeSet<&str> = names
            .chain(
                [SUMS]
                    .into_iter()
                    .filter(|name| found.contains_key(name) && !guard.leaves(name)),
            )
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        let repaired =
            |outcome: &mut RepairOutcome, name: &str| _ = outcome.repaired.insert(name.to_owned());
        if self.dry_run {
            names.into_iter().for_each(|name| repaired(outcome, name));
            return Ok(());
        }
        let unmade = match remake_companions(guard, manifest, &damaged, self.memory) {
            Ok(unmade) => unmade,
            Err(error) if error.kind() == Kind::Damage => {
                for name in names {
                    outcome.lost.insert(name.to_owned(), error.to_string());
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for name in names {
            match unmade.iter().any(|file| file.name == name) {
                false => repaired(outcome, name),
                true => {
                    let why = "made again it is not what was published".to_owned();
                    outcome.lost.insert(name.to_owned(), why);
                }
            }
        }
        Ok(())
    }
}
