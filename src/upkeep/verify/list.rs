//! The list level: names and sizes of what the manifest names, what else lies there, and the manifest's own sums.

use std::collections::{HashMap, HashSet};

use crate::base::checksum::crc_text;
use crate::base::error::Result;
use crate::format::Finding;
use crate::model::manifest::{MANIFEST, Manifest, ShardEntry, snapshot_name};
use crate::model::record::index_name;
use crate::model::version;
use crate::state::claims::plans;
use crate::state::plans::stored_names;
use crate::store::Sink;
use crate::upkeep::adopt::is_foreign_shard;
use crate::upkeep::verify::collected::Collected;
use crate::upkeep::verify::readers;
use crate::upkeep::verify::verification::{Level, Verifier};

/// Compares names and sizes. True for each shard whose content is worth reading.
pub(super) fn check(
    verification: &Verifier<'_>,
    manifest: &Manifest,
    shards: &[&ShardEntry],
    collected: &Collected<'_>,
) -> Result<Vec<bool>> {
    let mut check = ListCheck {
        verification,
        manifest,
        sizes: sizes(verification.sink, manifest)?,
        named: HashSet::new(),
        findings: Vec::new(),
    };
    let readable = shards.iter().map(|shard| check.shard(shard)).collect();
    check.readers(collected)?;
    check.others(collected)?;
    check.snapshot()?;
    check.totals(shards);
    collected.find(check.findings);
    Ok(readable)
}

/// Sizes in bytes of the objects where shards and their indexes lie, by name.
fn sizes(sink: &dyn Sink, manifest: &Manifest) -> Result<HashMap<String, u64>> {
    // Shards of others lie anywhere.
    let places: &[&str] = match manifest.recipe.foreign {
        true => &[""],
        false => &["data", "index"],
    };
    let mut sizes = HashMap::new();
    for place in places {
        sizes.extend(sink.list(place)?);
    }
    Ok(sizes)
}

/// A listing being compared with a manifest.
struct ListCheck<'a> {
    verification: &'a Verifier<'a>,
    manifest: &'a Manifest,
    /// Sizes in bytes of the objects that are there, by name.
    sizes: HashMap<String, u64>,
    /// Names that the manifest speaks of.
    named: HashSet<&'a str>,
    findings: Vec<Finding>,
}

impl<'a> ListCheck<'a> {
    /// A shard and its index; true where its content is worth reading.
    fn shard(&mut self, shard: &'a ShardEntry) -> bool {
        let data = self.object(&shard.name, shard.bytes);
        let index = self.object(&shard.index, shard.index_bytes);
        for name in [&shard.name, &shard.index] {
            if !self.named.insert(name) {
                let finding = Finding::new(name, "named twice by the manifest");
                self.findings.push(finding);
            }
        }
        data && (index || self.verification.level == Level::Head)
    }

    /// An object that the manifest names; true where its content is worth reading.
    fn object(&mut self, name: &str, bytes: u64) -> bool {
        let expected = format!("{bytes} bytes");
        match self.sizes.get(name) {
            None => {
                let finding = Finding::new(name, "missing").values(expected, "nothing");
                self.findings.push(finding);
                false
            }
            Some(&size) if size != bytes => {
                let finding = Finding::new(name, "another size")
                    .range(size.min(bytes), size.max(bytes))
                    .values(expected, format!("{size} bytes"));
                self.findings.push(finding);
                self.verification.level >= Level::Data
            }
            Some(_) => true,
        }
    }

    /// The reader indexes and `SHA256SUMS`.
    fn readers(&mut self, collected: &Collected<'_>) -> Result<()> {
        let mut differing = Vec::new();
        for file in &self.manifest.indexes {
            let listed = self.sizes.get(&file.name).copied();
            let wrong = readers::check_size(self.verification, file, listed, collected)?;
            self.findings.extend(wrong.kind);
            differing.extend(wrong.size);
            self.named.insert(&file.name);
        }
        differing.extend(readers::check_sums(self.verification, self.manifest)?);
        let (verification, manifest) = (self.verification, self.manifest);
        let differing = readers::unless_overwritten(verification, manifest, differing, collected)?;
        self.findings.extend(differing);
        Ok(())
    }

    /// What lies among the shards and is not named.
    fn others(&mut self, collected: &Collected<'_>) -> Result<()> {
        let recipe = &self.manifest.recipe;
        let ours = |name: &str| !recipe.foreign || is_foreign_shard(name, recipe.format);
        let mut others: Vec<&String> = self
            .sizes
            .keys()
            .filter(|name| !self.named.contains(name.as_str()) && ours(name))
            .collect();
        others.sort();
        if others.is_empty() {
            return Ok(());
        }
        let planned = planned_stems(self.verification.sink, self.manifest)?;
        for name in others {
            let finding = |what: &str| Finding::new(name, what);
            match planned.contains(stem(name)) {
                true => collected.note(finding(
                    "of an earlier snapshot, or of one that is being made: `shardpack gc` removes what is not needed",
                )),
                false => self.findings.push(finding(
                    "not in the manifest: a reader that globs would take it",
                )),
            }
        }
        Ok(())
    }

    /// The manifest beside its snapshot, and its name.
    fn snapshot(&mut self) -> Result<()> {
        let (manifest, sink) = (self.manifest, self.verification.sink);
        let snapshot = snapshot_name(manifest.snapshot);
        match (sink.get(&snapshot)?, sink.get(MANIFEST)?) {
            (None, _) => self.findings.push(Finding::new(
                &snapshot,
                "missing: the manifest cannot be compared with it",
            )),
            (Some(a), Some(b)) if a != b => {
                version::MANIFEST.check(&snapshot, &a)?;
                let finding = Finding::new(MANIFEST, format!("differs from {snapshot}"));
                let sums = (crc32fast::hash(&a), crc32fast::hash(&b));
                self.findings
                    .push(finding.values(crc_text(sums.0), crc_text(sums.1)));
            }
            _ => {}
        }
        let name = &manifest.recipe.name;
        if *name != manifest.name {
            let finding = Finding::new(MANIFEST, "its name").values(name, &manifest.name);
            self.findings.push(finding);
        }
        Ok(())
    }

    /// The manifest's totals beside the sums of its shards.
    fn totals(&mut self, shards: &[&ShardEntry]) {
        fn sum<'s>(
            shards: impl IntoIterator<Item = &'s ShardEntry>,
            of: fn(&ShardEntry) -> u64,
        ) -> u64 {
            shards.into_iter().map(of).sum()
        }
        let mut compare = |what: String, said: u64, is: u64| {
            if said != is {
                let finding = Finding::new(MANIFEST, format!("its total of {what}"));
                self.findings.push(finding.values(is, said));
            }
        };
        for split in &self.manifest.splits {
            let of_split = |what: &str| format!("{what} of split `{}`", split.name);
            let samples = sum(&split.shards, |shard| shard.samples);
            compare(of_split("samples"), split.samples, samples);
            let bytes = sum(&split.shards, |shard| shard.bytes);
            compare(of_split("bytes"), split.bytes, bytes);
        }
        let samples = sum(shards.iter().copied(), |shard| shard.samples);
        compare("samples".to_owned(), self.manifest.samples, samples);
        let bytes = sum(shards.iter().copied(), |shard| shard.bytes);
        compare("bytes".to_owned(), self.manifest.bytes, bytes);
    }
}

/// Stems of the shards, and of their indexes, that other plans than that of the manifest may have left.
fn planned_stems(sink: &dyn Sink, manifest: &Manifest) -> Result<HashSet<String>> {
    let names = stored_names(sink)?;
    let mut stems: HashSet<String> = names.iter().map(|name| stem(name).to_owned()).collect();
    let digests = HashSet::from([manifest.plan.as_str()]);
    for stored in plans(sink, &digests)?.values() {
        for name in stored.plan.dataset().into_values().flatten() {
            stems.remove(stem(name));
            stems.remove(stem(&index_name(name)));
        }
    }
    Ok(stems)
}

/// What a shard, its index and files for readers that describe it alone have in common.
fn stem(name: &str) -> &str {
    let file = name.rfind('/').map_or(0, |slash| slash + 1);
    name[file..]
        .find('.')
        .map_or(name, |dot| &name[..file + dot])
}
