//! The draft: a plan with its samples still in the compact form of the scan.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;

use rayon::prelude::*;

use crate::base::error::Result;
use crate::model::recipe::{Cut, Missing, Recipe};
use crate::model::sample::Sample;
use crate::model::selection::Derivation;
use crate::plan::lines::{set_line, sum_up};
use crate::plan::select::{Selection, select};
use crate::source::samples::{Notes, Scan};

use crate::plan::order::Ordered;
use crate::plan::select::NextPlan;
use crate::plan::value::{PLAN_KIND, Plan};

impl Ordered {
    /// Cuts all samples into the shards of a first plan.
    pub(crate) fn cut(self) -> Result<Draft> {
        let splits = self.scan.splits.clone();
        self.cut_next(NextPlan {
            generation: 1,
            splits,
            ..NextPlan::default()
        })
    }

    /// Cuts samples into new shards, beside those that are made again.
    pub(crate) fn cut_next(mut self, mut next: NextPlan) -> Result<Draft> {
        let Selection { mut shards, ranges } = select(&mut self.scan, &self.recipe, &mut next)?;
        shards
            .par_iter_mut()
            .zip(&ranges)
            .for_each(|(shard, range)| sum_up(shard, samples(&self.scan, range)));
        let plan = Plan {
            kind: PLAN_KIND.to_owned(),
            version: 1,
            generation: next.generation,
            base: next.base,
            source: self.source,
            derived_from: self.scan.derived_from.clone().map(|derived| Derivation {
                selection: self.recipe.select.words(),
                ..derived
            }),
            stale: next.stale,
            // A first plan's are those of its shards.
            numbers: match next.generation {
                1 => BTreeMap::new(),
                _ => next.numbers,
            },
            recipe: self.recipe,
            names: self.names,
            splits: next.splits,
            shards,
        };
        Ok(Draft {
            id: plan.id(),
            digest: plan.digest(),
            plan,
            scan: self.scan,
            ranges,
        })
    }
}

/// A plan with its samples still in the compact form of the scan.
pub(crate) struct Draft {
    /// The plan.
    pub plan: Plan,
    /// Its [`Plan::id`].
    pub id: String,
    /// Its [`Plan::digest`].
    pub digest: String,
    scan: Scan,
    /// For each shard, its entries.
    ranges: Vec<Range<usize>>,
}

impl Draft {
    /// Orders and cuts the samples of a scan into the shards of a first plan.
    ///
    /// `texts` are what the classes are called for people: empty, or one for each class.
    pub(crate) fn new(scan: Scan, recipe: Recipe, texts: Vec<String>) -> Result<Self> {
        let source = scan.fingerprint(&texts);
        Ordered::new(scan, recipe, texts, source)?.cut()
    }

    /// What was seen besides samples.
    pub(crate) fn notes(&self) -> &Notes {
        &self.scan.notes
    }

    /// The samples of one shard, in order.
    pub(crate) fn samples(&self, shard: usize) -> impl Iterator<Item = Sample> {
        samples(&self.scan, &self.ranges[shard])
    }

    /// Writes the samples of one shard, one JSON object a line; never holds more than one of them.
    pub(crate) fn write_lines(&self, shard: usize, out: &mut impl Write) -> std::io::Result<()> {
        let mut line = Vec::new();
        for sample in self.samples(shard) {
            set_line(&mut line, &sample)?;
            out.write_all(&line)?;
        }
        Ok(())
    }

    /// Warnings a user should see before packing.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Cut::ShardBytes(limit) = self.plan.recipe.cut {
            for (shard, plan) in self.plan.shards.iter().enumerate() {
                if plan.bytes > limit {
                    let names: Vec<_> = self.samples(shard).take(1).map(|s| s.key).collect();
                    warnings.push(format!(
                        "{}: {} bytes, over `--shard-size` {limit}: sample `{}` alone is larger; raise `--shard-size` or leave it out",
                        plan.name, plan.bytes, names.join("")
                    ));
                }
            }
        }
        if let (Cut::Shards(wanted), None) = (self.plan.recipe.cut, &self.plan.base) {
            for split in &self.plan.splits {
                let made = self
                    .plan
                    .shards
                    .iter()
                    .filter(|s| s.split == *split)
                    .count() as u64;
                if made < wanted {
                    warnings.push(format!(
                        "split `{split}`: {made} shards instead of {wanted}, because it has only {made} samples"
                    ));
                }
            }
        }
        let samples = self.scan.entries.len() as u64;
        for (name, count) in &self.scan.notes.sidecars {
            if *count < samples && self.plan.recipe.missing == Missing::Keep {
                warnings.push(format!(
                    "only {count} of {samples} samples have a `{name}` file: HuggingFace datasets wants the same fields in every sample"
                ));
            }
        }
        warnings
    }
}

/// The samples of a range of entries, in order.
fn samples(scan: &Scan, range: &Range<usize>) -> impl Iterator<Item = Sample> {
    scan.entries[range.clone()]
        .iter()
        .map(|entry| scan.sample(entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::listing::{Dir, Listing};
    use crate::model::sample::Version;
    use crate::plan::value::ShardPlan;
    use crate::plan::worker::Worker;
    use crate::source::rules::Rules;
    use crate::source::scan::scan;

    /// The draft for a class with these files, each with its size and version.
    fn draft(files: &[(&str, u64, Version)], seed: u64) -> Draft {
        let mut class = Dir::new("cat");
        for (name, size, version) in files {
            assert!(class.push(name.as_bytes(), *size, version));
        }
        let listing = Listing {
            dirs: vec![Dir::default(), class],
            ..Listing::default()
        };
        let recipe = Recipe {
            missing: Missing::Keep,
            seed,
            cut: Cut::Shards(2),
            ..Recipe::default()
        };
        Draft::new(
            scan(listing, &Rules::plain(), "SRC").unwrap(),
            recipe,
            vec![],
        )
        .unwrap()
    }

    #[test]
    fn versions_are_in_the_id_and_not_in_the_digest() {
        let old = Version::Mtime(1_795_228_923_351_288_083);
        let names = ["1.jpg", "2.jpg", "2.txt", "3.jpg"];
        let files = |version: &Version| names.map(|name| (name, 7, version.clone()));
        let plan = draft(&files(&old), 0);
        for version in [Version::Mtime(-5), Version::ETag("d41d8cd9-12".into())] {
            let mut one = files(&old);
            one[2].2 = version.clone();
            for copy in [draft(&files(&version), 0), draft(&one, 0)] {
                assert_eq!(copy.digest, plan.digest);
                assert_ne!(copy.id, plan.id);
            }
        }
        let same = draft(&files(&old), 0);
        assert_eq!((same.id, &same.digest), (plan.id, &plan.digest));
    }

    #[test]
    fn names_sizes_and_the_recipe_are_in_the_digest() {
        let files = ["1.jpg", "2.jpg", "2.txt"].map(|name| (name, 7, Version::Mtime(1)));
        let plan = draft(&files, 0);
        let mut larger = files.clone();
        larger[1].1 = 8;
        let mut renamed = files.clone();
        renamed[2].0 = "2.json";
        // The same key, field and size from another path.
        let mut upper = files.clone();
        upper[0].0 = "1.JPG";
        for other in [
            draft(&larger, 0),
            draft(&renamed, 0),
            draft(&upper, 0),
            draft(&files[..2], 0),
            draft(&files, 1),
        ] {
            assert_ne!(other.digest, plan.digest);
        }
    }

    #[test]
    fn workers_share_all_shards_and_have_about_as_many_bytes_each() {
        let mut plan = draft(&[("1.jpg", 7, Version::Mtime(1))], 0).plan;
        let shard = |number: u64| ShardPlan {
            // Some full ones and many small ones.
            bytes: if number < 7 { 1000 } else { 90 + number },
            ..plan.shards[0].clone()
        };
        plan.shards = (0..40).map(shard).collect();
        let total = plan.bytes();
        for of in [1, 3, 16, 40, 100] {
            let parts: Vec<_> = (0..of)
                .map(|number| plan.part(Worker { number, of }))
                .collect();
            let mut all: Vec<usize> = parts.concat();
            all.sort_unstable();
            assert_eq!(all, (0..40).collect::<Vec<_>>());
            let bytes = |part: &Vec<usize>| part.iter().map(|&i| plan.shards[i].bytes).sum();
            let most: u64 = parts.iter().map(bytes).max().unwrap();
            let even = total / of as u64;
            assert!(
                most <= (even + 130).max(1000),
                "{of} workers: {most}, {even} if even"
            );
        }
    }
}
