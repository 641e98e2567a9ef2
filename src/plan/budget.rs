//! `--memory` as arithmetic: what a run will hold, summed up before it starts.
//!
//! total = base + what the stores take + jobs × (lists and rows of the largest shard + buffers + read-ahead window).

use std::path::{Path, PathBuf};

use crate::base::error::{Error, Result};
use crate::base::image::Validate;
use crate::base::units::counted;
use crate::plan::value::{Plan, ShardPlan};

/// The program itself, its libraries and small change.
const BASE_BYTES: u64 = 24 << 20;
/// Writer and stream buffers of one packer.
const BUFFER_BYTES: u64 = 2 << 20;
/// A sample's row while its shard is packed and encoded.
const ROW_BYTES: u64 = 600;
/// A sample in a list: once in the shard being packed, once in the one whose reads have begun.
const LISTED_BYTES: u64 = 2 * 180;
/// What decoding one image may allocate by the decoder's own count: 44 megapixels of RGB. The same whatever `--memory` says, because
/// it decides which images pass `--validate decode`.
pub(crate) const DECODE_LIMIT_BYTES: u64 = 128 << 20;
/// What it may take in all: the file, the pixels, and twice as much for a progressive JPEG's coefficients, which the decoder does not count.
const DECODE_BYTES: u64 = 4 * DECODE_LIMIT_BYTES;
/// A record's row while a shard is verified.
const VERIFIED_ROW_BYTES: u64 = 400;
/// What the listing of a source holds of a sample while it is planned.
const PLANNED_BYTES: u64 = 150;
/// A key's hash, kept until all are known to differ.
const VERIFIED_KEY_BYTES: u64 = 32;
/// A source's sample that is compared: its entry, its name, and its place in a table.
const VERIFIED_SOURCE_BYTES: u64 = 150;
/// A packer with less read-ahead than this is not worth having.
const MIN_WINDOW_BYTES: u64 = 4 << 20;
/// More read-ahead than this has no use.
const MAX_WINDOW_BYTES: u64 = 256 << 20;
/// Memory given when nothing is said: a quarter of what there is, within bounds.
const DEFAULT_BYTES: std::ops::RangeInclusive<u64> = 256 << 20..=4 << 30;

/// How much each packer may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Shards packed at once.
    pub jobs: usize,
    /// Bytes of samples each packer holds ahead of and at the one it packs.
    pub window_bytes: u64,
}

/// What the stores of a run take, besides what a job holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overhead {
    /// Reads in flight at most, for messages.
    pub reads: usize,
    /// Bytes of all reads in flight and of all parts being uploaded.
    pub bytes: u64,
    /// Bytes more for each job.
    pub job_bytes: u64,
    /// Window of each job below which reading a large file would be slow.
    pub window_bytes: u64,
}

/// Divides `memory` among at most `jobs` packers; fewer when it does not suffice, an error when not even for one.
pub(crate) fn divide(memory: u64, jobs: usize, overhead: Overhead, plan: &Plan) -> Result<Budget> {
    let lists =
        |shard: &ShardPlan| shard.samples * (ROW_BYTES + LISTED_BYTES) + shard.listing_bytes * 3;
    let decode = match plan.recipe.validate {
        Validate::Decode => DECODE_BYTES,
        Validate::None | Validate::Header => 0,
    };
    let fixed = BASE_BYTES + overhead.bytes;
    let lists = plan.shards.iter().map(lists).max().unwrap_or(0);
    let each = lists + BUFFER_BYTES + decode + overhead.job_bytes;
    let window = overhead.window_bytes;
    share(memory, jobs.min(plan.shards.len()), fixed, each, window).map_err(|needed| {
        let samples = plan.shards.iter().map(|shard| shard.samples).max();
        too_little(
            memory,
            needed,
            &format!(
                "{} and the largest shard's {}",
                counted(overhead.reads as u64, "read"),
                counted(samples.unwrap_or(0), "sample")
            ),
            "`--reads`, `--shard-size` or `--validate`",
        )
    })
}

/// The same for verifying a dataset of so many samples, `largest` of them in one shard, against a source or not.
pub(crate) fn divide_verification(
    memory: u64,
    jobs: usize,
    overhead: Overhead,
    samples: u64,
    largest: u64,
    against_source: bool,
) -> Result<Budget> {
    let source = if against_source {
        VERIFIED_SOURCE_BYTES + LISTED_BYTES
    } else {
        0
    };
    let fixed = BASE_BYTES + overhead.bytes + samples * (VERIFIED_KEY_BYTES + source);
    let each = largest * VERIFIED_ROW_BYTES + BUFFER_BYTES + overhead.job_bytes;
    share(memory, jobs, fixed, each, overhead.window_bytes).map_err(|needed| {
        too_little(
            memory,
            needed,
            &format!("{samples} samples"),
            "`--reads` or `--level`",
        )
    })
}

/// The same for making shards again from their indexes, `largest` samples in one of them. One job is enough whatever it takes: a repair
/// that is refused repairs nothing.
pub(crate) fn divide_repair(memory: u64, jobs: usize, overhead: Overhead, largest: u64) -> Budget {
    let fixed = BASE_BYTES + overhead.bytes;
    let each = largest * (ROW_BYTES + LISTED_BYTES) + BUFFER_BYTES + overhead.job_bytes;
    share(memory, jobs, fixed, each, overhead.window_bytes).unwrap_or(Budget {
        jobs: 1,
        window_bytes: overhead.window_bytes.max(MIN_WINDOW_BYTES),
    })
}

/// The same for copying shards, `largest` samples in one of them: besides what the stores take, a job holds the rows of a shard that it joins.
pub(crate) fn divide_copy(
    memory: u64,
    jobs: usize,
    overhead: Overhead,
    largest: u64,
) -> Result<Budget> {
    let fixed = BASE_BYTES + overhead.bytes;
    let each = largest * VERIFIED_ROW_BYTES + BUFFER_BYTES + overhead.job_bytes;
    share(memory, jobs, fixed, each, 0).map_err(|needed| {
        let what = format!("the largest shard's {}", counted(largest, "sample"));
        too_little(memory, needed, &what, "`--jobs`")
    })
}

/// Lists of a plan that may be read at once beside the listing of a source with so many samples: `most` of them, or fewer, so that lists of
/// `largest` bytes take no more than half of what is left of `memory`; at least one.
pub(crate) fn lists_at_once(memory: u64, samples: u64, largest: u64, most: usize) -> usize {
    let left = memory.saturating_sub(BASE_BYTES + samples * PLANNED_BYTES) / 2;
    let fit = usize::try_from(left / largest.max(1)).unwrap_or(most);
    fit.clamp(1, most.max(1))
}

/// What tables beside the images, and what comes of them, may take while a source is planned: half of what is left of `memory`, the other
/// half is the listing's.
pub(crate) fn table_bytes(memory: u64) -> u64 {
    memory.saturating_sub(BASE_BYTES) / 2
}

/// Shares out what is left after `fixed` and `each` a job, with a `window` for each, or says how many MiB one job needs.
fn share(memory: u64, jobs: usize, fixed: u64, each: u64, window: u64) -> Result<Budget, u64> {
    let least = window.max(MIN_WINDOW_BYTES);
    for jobs in (1..=jobs.max(1)).rev() {
        // An allocator gives back less than it was given: a fifth is left to it.
        let free = memory.saturating_sub(fixed) / jobs as u64;
        let window = free.saturating_sub(each) / 5 * 4;
        if window >= least {
            return Ok(Budget {
                jobs,
                window_bytes: window.min(MAX_WINDOW_BYTES),
            });
        }
    }
    Err((fixed + each + least * 5 / 4).div_ceil(1 << 20))
}

fn too_little(memory: u64, needed: u64, what: &str, lower: &str) -> Error {
    Error::usage(format!(
        "`--memory` of {} MiB is too little: {needed} MiB are needed for {what}; raise it to {needed}MiB, or lower {lower}",
        memory >> 20,
    ))
}

/// Shards at once that keep `cores` busy to the end: with few shards one job more than cores is better than a core that idles
/// while the last shard is made.
pub(crate) fn balanced_jobs(cores: usize, shards: usize) -> usize {
    // With many shards the last round is a small part of the whole.
    if shards >= 16 * cores {
        return cores;
    }
    let last_round = |jobs: usize| match shards % jobs {
        0 => jobs,
        left => left,
    };
    (cores..=2 * cores)
        .find(|&jobs| last_round(jobs) >= cores)
        .unwrap_or(cores)
}

/// The memory a run may use when nothing is said: a quarter of the machine's or the control group's.
pub(crate) fn default_memory() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
            let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
            Some(kib << 10)
        });
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = group_memory(&groups, Path::new("/sys/fs/cgroup"));
    let known = [machine, group]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(2 << 30);
    // A container of 300 MiB must not be given 256 of them.
    (known / 4)
        .clamp(*DEFAULT_BYTES.start(), *DEFAULT_BYTES.end())
        .min(known / 4 * 3)
}

/// The smallest memory limit of this process's control groups and of those around them, in either version of the hierarchy. `groups` is
/// the kernel's list of them, `root` where they are mounted.
fn group_memory(groups: &str, root: &Path) -> Option<u64> {
    let limit = |file: PathBuf| -> Option<u64> {
        let text = std::fs::read_to_string(file).ok()?;
        text.trim().parse().ok()
    };
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
        );
        let (mounted, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        // In a container the path may be that of the host, of which nothing but the root is to be seen.
        let own = Path::new(path.trim_start_matches('/'));
        let around = own.ancestors().map(|group| mounted.join(group).join(file));
        around.filter_map(limit).collect()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::recipe::{Cut, Recipe};
    use crate::plan::value::PLAN_KIND;

    const READER_BYTES: u64 = 40 << 10;

    #[test]
    fn tables_leave_the_other_half_to_the_listing() {
        assert_eq!(table_bytes(BASE_BYTES + (64 << 20)), 32 << 20);
        assert_eq!(table_bytes(1), 0);
    }

    fn overhead(reads: usize) -> Overhead {
        Overhead {
            reads,
            bytes: reads as u64 * READER_BYTES,
            ..Overhead::default()
        }
    }

    fn plan(shards: usize, samples: u64) -> Plan {
        let shard = |i| ShardPlan {
            name: format!("data/train-{i:05}.tar").try_into().unwrap(),
            split: "train".into(),
            samples,
            bytes: 0,
            source_bytes: 0,
            listing: String::new(),
            listing_bytes: samples * 150,
            unversioned: String::new(),
            replaces: None,
        };
        Plan {
            kind: PLAN_KIND.into(),
            version: 1,
            generation: 1,
            base: None,
            source: String::new(),
            derived_from: None,
            stale: 0,
            numbers: Default::default(),
            recipe: Recipe {
                cut: Cut::Shards(1),
                ..Recipe::default()
            },
            names: Default::default(),
            splits: vec![],
            shards: (0..shards).map(shard).collect(),
        }
    }

    #[test]
    fn the_parts_stay_within_the_whole() {
        let plan = plan(100, 9000);
        for mib in [96, 128, 512, 4096] {
            let budget = divide(mib << 20, 8, overhead(256), &plan).unwrap();
            let lists = 9000 * (ROW_BYTES + LISTED_BYTES + 450);
            let each = budget.window_bytes + BUFFER_BYTES + lists;
            let total = BASE_BYTES + 256 * READER_BYTES + budget.jobs as u64 * each;
            assert!(total <= mib << 20, "{mib}: {budget:?}");
        }
    }

    #[test]
    fn too_little_memory_says_how_much_is_needed() {
        let error = divide(8 << 20, 2, overhead(256), &plan(1, 10)).unwrap_err();
        assert!(error.to_string().contains("raise it to 42MiB"), "{error}");
        divide(42 << 20, 2, overhead(256), &plan(1, 10)).unwrap();
    }

    #[test]
    fn decoding_is_part_of_the_sum() {
        let mut plan = plan(4, 10);
        plan.recipe.validate = Validate::Decode;
        assert_eq!(divide(700 << 20, 4, overhead(64), &plan).unwrap().jobs, 1);
        assert_eq!(divide(2500 << 20, 4, overhead(64), &plan).unwrap().jobs, 4);
        assert!(divide(256 << 20, 4, overhead(64), &plan).is_err());
    }

    #[test]
    fn the_narrowest_control_group_around_counts() {
        let root = tempfile::tempdir().unwrap();
        let set = |group: &str, file: &str, limit: &str| {
            let group = root.path().join(group);
            std::fs::create_dir_all(&group).unwrap();
            std::fs::write(group.join(file), format!("{limit}\n")).unwrap();
        };
        let memory = |groups: &str| group_memory(groups, root.path());
        assert_eq!(memory("0::/pod/main\n"), None);
        set("pod/main", "memory.max", "max");
        assert_eq!(memory("0::/pod/main\n"), None);
        set("pod", "memory.max", "5000");
        assert_eq!(memory("0::/pod/main\n"), Some(5000));
        set("pod/main", "memory.max", "4000");
        assert_eq!(memory("0::/pod/main\n"), Some(4000));
        // The path of a host, seen from within a container.
        set("", "memory.max", "6000");
        assert_eq!(memory("0::/kubepods/burstable/x\n"), Some(6000));

        set("memory/pod", "memory.limit_in_bytes", "3000");
        set("memory", "memory.limit_in_bytes", "9223372036854771712");
        let first = "5:cpu,cpuacct:/\n4:hugetlb,memory:/pod\n0::/\n";
        assert_eq!(memory(first), Some(3000));
    }

    #[test]
    fn no_core_idles_while_the_last_shards_are_made() {
        for (shards, jobs) in [(1, 2), (2, 2), (3, 3), (4, 2), (5, 3), (7, 4), (148, 2)] {
            assert_eq!(balanced_jobs(2, shards), jobs, "{shards} shards");
        }
        assert_eq!(balanced_jobs(8, 9), 9);
        assert_eq!(balanced_jobs(1, 3), 1);
    }

    #[test]
    fn as_many_lists_are_read_at_once_as_the_listing_leaves_memory_for() {
        let mib = |n: u64| n << 20;
        assert_eq!(lists_at_once(mib(4096), 1_000_000, mib(4), 64), 64);
        assert_eq!(lists_at_once(mib(256), 300_000, mib(4), 64), 23);
        assert_eq!(lists_at_once(mib(64), 90_000, mib(4), 64), 3);
        assert_eq!(lists_at_once(mib(32), 1_000_000, mib(4), 64), 1);
    }

    #[test]
    fn there_are_no_more_packers_than_shards() {
        assert_eq!(
            divide(1 << 30, 8, overhead(64), &plan(3, 10)).unwrap().jobs,
            3
        );
    }
}
