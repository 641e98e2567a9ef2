//! The mutation score of `verify`: whatever is changed in what a dataset publishes, it is found.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use shardpack::{Options, Verification};

use crate::support::{Dataset, Output, Random, files, picture};

/// Formats whose shards, indexes and manifests are changed.
const FORMATS: [&[&str]; 5] = [
    &["--add-json", "--index", "wids,dali,energon", "--sha256"],
    &["--compress", "zstd", "--zstd-seekable"],
    &["--format", "tfrecord", "--compress", "gzip"],
    &["--format", "tfrecord", "--schema", "tfds"],
    &["--format", "parquet"],
];

/// What people may complete of energon's index.
const SAMPLE_TYPE: &str = ".nv-meta/dataset.yaml";

/// How many mutations, and how many clean datasets: more with `SHARDPACK_MUTATIONS` and `SHARDPACK_CLEAN`.
fn wanted(name: &str, usual: usize) -> usize {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(usual)
}

/// Whether verification calls the dataset intact; a manifest that cannot be read is damage too.
fn intact(root: &Path) -> bool {
    let options = Options {
        jobs: Some(1),
        ..Options::default()
    };
    let verification = Verification::new(root.to_str().unwrap()).options(options);
    verification.run().is_ok_and(|report| report.is_intact())
}

/// What a dataset publishes, and its plan's list of samples: everything but the card and energon's sample type, which people may
/// complete, and the claim and plan it was made by.
fn published(output: &Output) -> BTreeMap<PathBuf, Vec<u8>> {
    let ours = |path: &PathBuf| {
        let name = path.strip_prefix(&output.path).unwrap().to_str().unwrap();
        !["README.md", SAMPLE_TYPE].contains(&name)
            && (!name.starts_with("_shardpack/plan") || name.ends_with("/samples.jsonl.zst"))
            && !name.starts_with("_shardpack/claims")
    };
    let read = |path: PathBuf| (path.clone(), fs::read(path).unwrap());
    files(&output.path)
        .into_iter()
        .filter(ours)
        .map(read)
        .collect()
}

/// One change of some files: `None` removes one. Says what it did.
type Change = (String, Vec<(PathBuf, Option<Vec<u8>>)>);

fn one(what: String, path: &Path, content: Vec<u8>) -> Change {
    (what, vec![(path.to_owned(), Some(content))])
}

/// A random change of random files.
fn change(
    random: &mut Random,
    now: &BTreeMap<PathBuf, Vec<u8>>,
    stale: &BTreeMap<PathBuf, Vec<u8>>,
    root: &Path,
) -> Change {
    let names: Vec<&PathBuf> = now.keys().collect();
    let path = names[random.below(names.len() as u64) as usize];
    let bytes = &now[path];
    let at = random.below(bytes.len() as u64) as usize;
    let shards: Vec<&PathBuf> = names
        .iter()
        .copied()
        .filter(|path| path.starts_with(root.join("data")) && now[*path].len() > 600)
        .collect();
    let pick = |random: &mut Random| shards[random.below(shards.len() as u64) as usize];
    match random.below(12) {
        0..=4 => {
            let mut bytes = bytes.clone();
            let bit = 1 << random.below(8);
            bytes[at] ^= bit;
            one(format!("bit {bit} of byte {at} of {path:?}"), path, bytes)
        }
        5 => {
            let path = pick(random);
            let bytes = &now[path];
            let end = random.below(bytes.len() as u64) as usize / 512 * 512;
            one(
                format!("{path:?} cut at {end}"),
                path,
                bytes[..end].to_vec(),
            )
        }
        6 => one(format!("{path:?} cut at {at}"), path, bytes[..at].to_vec()),
        7 => {
            let length = 1 + random.below(1500) as usize;
            let more = vec![random.below(2) as u8; length];
            one(
                format!("{length} bytes after {path:?}"),
                path,
                [&bytes[..], &more].concat(),
            )
        }
        8 => {
            let (a, b) = (pick(random), pick(random));
            match now[a] == now[b] {
                true => (format!("{a:?} removed"), vec![(a.clone(), None)]),
                false => (
                    format!("{a:?} and {b:?} swapped"),
                    vec![
                        (a.clone(), Some(now[b].clone())),
                        (b.clone(), Some(now[a].clone())),
                    ],
                ),
            }
        }
        9 => {
            // A run of blocks once more, as a record written twice would be.
            let path = pick(random);
            let bytes = &now[path];
            let blocks = bytes.len() as u64 / 512;
            let from = random.below(blocks) as usize * 512;
            let to = from + (1 + random.below(blocks - from as u64 / 512) as usize) * 512;
            let doubled = [&bytes[..to], &bytes[from..]].concat();
            one(format!("{path:?}: bytes {from}..{to} twice"), path, doubled)
        }
        10 => {
            let path = pick(random);
            let old = stale
                .iter()
                .find(|(old, _)| old.file_name() == path.file_name())
                .map(|(_, bytes)| bytes.clone());
            one(
                format!("{path:?} of an older dataset"),
                path,
                old.unwrap_or_default(),
            )
        }
        _ => {
            // An edit of one number or letter of the manifest, and of the snapshot that it is compared with.
            let (manifest, snapshot) = (
                root.join("manifest.json"),
                root.join("_shardpack/snapshots/00000001.json"),
            );
            let mut text = now[&manifest].clone();
            // Length and checksum of the file that people may complete are not compared with anything.
            let json = String::from_utf8_lossy(&text);
            let completed = json
                .find(&format!("{SAMPLE_TYPE}\","))
                .unwrap_or(text.len());
            let end = json[completed..].find('}').unwrap_or(0);
            let words: Vec<usize> = (0..text.len())
                .filter(|&at| text[at].is_ascii_alphanumeric())
                .filter(|at| !(completed + SAMPLE_TYPE.len()..completed + end).contains(at))
                .collect();
            let at = words[random.below(words.len() as u64) as usize];
            text[at] = match text[at] {
                b'9' | b'z' | b'Z' => text[at] - 1,
                other => other + 1,
            };
            (
                format!(
                    "byte {at} of manifest and snapshot: {}",
                    String::from_utf8_lossy(
                        &text[at.saturating_sub(30)..(at + 10).min(text.len())]
                    )
                ),
                vec![(manifest, Some(text.clone())), (snapshot, Some(text))],
            )
        }
    }
}

#[test]
fn every_mutation_of_what_is_published_is_found() {
    let mutations = wanted("SHARDPACK_MUTATIONS", 20_000);
    let cut = picture("cut");
    let source = |seed: usize| {
        let mut data = Dataset::new().file("b/cut.jpg", &cut[..cut.len() - 50]);
        for number in 0..7 {
            let name = format!("{}/{number}.jpg", ["a", "b"][number % 2]);
            data = data.file(&name, picture(&format!("{name} {seed}")));
        }
        data
    };
    // Other mutations with another seed.
    let seed = wanted("SHARDPACK_SEED", 0) as u64 * 1000;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let survivors: Vec<String> = std::thread::scope(|scope| {
        let run = |thread: usize| {
            let mut random = Random::new(seed + 77 + thread as u64);
            let mut survivors = Vec::new();
            for (number, flags) in FORMATS.into_iter().enumerate() {
                let flags = [
                    flags,
                    &["--shards", "2", "--name", "x", "--on-error", "skip"],
                ]
                .concat();
                let (data, old) = (source(1), source(2));
                let (output, older) = (data.convert(&flags), old.convert(&flags));
                let (now, stale) = (published(&output), published(&older));
                assert!(intact(&output.path), "{flags:?}");
                let rounds = mutations.div_ceil(FORMATS.len() * threads);
                for _ in 0..rounds {
                    let (what, changes) = change(&mut random, &now, &stale, &output.path);
                    for (path, content) in &changes {
                        match content {
                            Some(content) => fs::write(path, content).unwrap(),
                            None => fs::remove_file(path).unwrap(),
                        }
                    }
                    if intact(&output.path) {
                        survivors.push(format!("format {number}: {what}"));
                    }
                    for (path, _) in &changes {
                        fs::write(path, &now[path]).unwrap();
                    }
                }
                assert!(intact(&output.path), "not put back");
            }
            survivors
        };
        let running: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || run(thread)))
            .collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    println!("{mutations} mutations, {} survivors", survivors.len());
    assert!(survivors.is_empty(), "{survivors:#?}");
}

#[test]
fn no_clean_dataset_is_called_damaged() {
    let datasets = wanted("SHARDPACK_CLEAN", 1000);
    let mut random = Random::new(5);
    for number in 0..datasets {
        let mut data = Dataset::new();
        for class in 0..1 + random.below(3) {
            for file in 0..1 + random.below(4) {
                let stem = format!("c{class}/{file}-{number}");
                data = data.file(format!("{stem}.jpg"), picture(&stem));
                if number % 3 == 0 {
                    data = data.file(format!("{stem}.txt"), format!("{file} of {number}"));
                }
            }
        }
        let shards = (1 + random.below(3)).to_string();
        let seed = random.below(1000).to_string();
        let flags = [
            FORMATS[number % FORMATS.len()],
            &["--shards", &shards, "--seed", &seed],
        ]
        .concat();
        let output = data.convert(&flags);
        assert!(intact(&output.path), "{flags:?}");
    }
}
