//! A listing becomes samples by the rules of torchvision's `ImageFolder`: one directory a class, classes numbered by sorted name.
//!
//! Source: torchvision `datasets/folder.py`. Ours on top: splits with one class list, label files for flat directories, sidecar
//! fields. All offenders are found before anything is refused. Nothing here opens a file or knows of shards.

use crate::base::error::Result;
use crate::model::listing::Listing;
use crate::source::rules::excluded;
use crate::source::scanner::Scanner;

use crate::source::rules::Rules;
use crate::source::samples::Scan;

/// Reads a listing by the rules, or refuses it with every offender named.
pub(crate) fn scan(listing: Listing, rules: &Rules, source: &str) -> Result<Scan> {
    let mut scanner = Scanner::new(rules, source, listing.problems, listing.hidden);
    // An unreadable or looping place that was to be left out is none of our business.
    scanner
        .problems
        .retain(|problem| !excluded(&rules.exclude, problem.path.counted().as_bytes()));
    let mut dirs = listing.dirs;
    scanner.filter(&mut dirs);
    let mut splits = scanner.splits(&dirs)?;
    let places = scanner.places(&dirs, &splits)?;
    let classes = scanner.classes(&dirs, &places, &mut splits)?;
    let names = splits.iter().map(|split| split.name.clone()).collect();
    let mut scan = Scan {
        columns: rules
            .metadata
            .as_ref()
            .map_or_else(Vec::new, |rows| rows.columns.clone()),
        metadata: rules.metadata.clone(),
        ..Scan::empty(dirs, names, classes.names.clone())
    };
    for (index, place) in places.iter().enumerate() {
        if let Some(place) = place {
            scanner.group(&mut scan, index, place, &splits, &classes);
        }
    }
    scanner.label_by_position(&mut scan, &splits, &classes);
    scanner.unused_labels(&scan, &splits);
    scanner.rows_without_images();
    scanner.doubt_labels(&scan, &splits, &classes)?;
    finish(scanner, scan)
}

/// The scan with what was seen besides its samples, or the refusal of a source with problems.
pub(super) fn finish(mut scanner: Scanner<'_>, mut scan: Scan) -> Result<Scan> {
    scan.count_classes();
    scan.notes = std::mem::take(&mut scanner.notes);
    scanner.refuse(&scan)?;
    scan.entries.shrink_to_fit();
    Ok(scan)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use globset::GlobSet;

    use super::*;
    use crate::base::error::Kind;
    use crate::model::listing::Dir;
    use crate::model::sample::{SourcePath, Version};
    use crate::source::labels::Labels;

    /// A listing of these paths; a trailing slash is an empty directory, `@N` after a path its size.
    fn listing(paths: &[&str]) -> Listing {
        let mut dirs: BTreeMap<Vec<u8>, Dir> = BTreeMap::new();
        dirs.insert(Vec::new(), Dir::default());
        for path in paths {
            let (path, size) = path
                .split_once('@')
                .map_or((*path, 7), |(p, s)| (p, s.parse().unwrap()));
            let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
            let mut above = dir;
            while !above.is_empty() {
                dirs.entry(above.into()).or_insert_with(|| Dir::new(above));
                above = above.rsplit_once('/').map_or("", |(above, _)| above);
            }
            if !name.is_empty() {
                let dir = dirs.get_mut(dir.as_bytes()).unwrap();
                assert!(dir.push(name.as_bytes(), size, &Version::Mtime(1)));
            }
        }
        Listing {
            dirs: dirs.into_values().collect(),
            ..Listing::default()
        }
    }

    /// Key, split and label of every sample, sorted by key.
    fn samples(scan: &Scan) -> Vec<(String, &str, u32)> {
        let mut samples: Vec<_> = scan
            .entries
            .iter()
            .map(|e| {
                (
                    scan.key(e),
                    scan.splits[usize::from(e.split)].as_str(),
                    e.label,
                )
            })
            .collect();
        samples.sort();
        samples
    }

    fn refusal(paths: &[&str], rules: &Rules) -> String {
        let error = scan(listing(paths), rules, "SRC").unwrap_err();
        assert_eq!(error.kind(), Kind::Source);
        error.to_string()
    }

    #[test]
    fn the_fingerprint_is_of_every_file_and_class() {
        let scanned = |paths: &[&str]| scan(listing(paths), &Rules::plain(), "SRC").unwrap();
        let plain = ["a/1.jpg", "a/1.txt", "b/2.jpg"];
        let one = scanned(&plain).fingerprint(&[]);
        assert_eq!(one, scanned(&plain).fingerprint(&[]));
        let odd = scanned(&["a/1.jpg", "a/1.txt", "a/notes.md", "b/2.jpg"]);
        assert_eq!(one, odd.fingerprint(&[]), "what is no sample is nothing");
        assert_ne!(one, scanned(&plain).fingerprint(&["A".into(), "B".into()]));
        for other in [
            &["a/1.jpg@8", "a/1.txt", "b/2.jpg"][..],
            &["a/1.jpg", "a/1.json", "b/2.jpg"],
            &["a/1.jpg", "a/1.txt", "c/2.jpg"],
            &["a/1.jpg", "a/1.txt", "b/2.jpg", "b/3.jpg"],
            &["train/a/1.jpg", "train/a/1.txt", "train/b/2.jpg"],
        ] {
            assert_ne!(one, scanned(other).fingerprint(&[]), "{other:?}");
        }
    }

    #[test]
    fn classes_keep_their_numbers_and_new_ones_follow() {
        let mut scan = scan(
            listing(&["a/1.jpg", "c/1.jpg", "c/2.jpg", "b/1.jpg"]),
            &Rules::plain(),
            "SRC",
        )
        .unwrap();
        let known = ["z", "c"].map(str::to_owned);
        assert_eq!(scan.number_like(&known), ["a", "b"]);
        assert_eq!(scan.classes, ["z", "c", "a", "b"]);
        assert_eq!(scan.class_sizes, [0, 2, 1, 1]);
        let labels: Vec<_> = samples(&scan).into_iter().map(|s| (s.0, s.2)).collect();
        let expected = [("a/1", 2), ("b/1", 3), ("c/1", 1), ("c/2", 1)];
        assert_eq!(labels, expected.map(|(key, label)| (key.to_owned(), label)));
    }

    #[test]
    fn classes_are_numbered_by_sorted_name_over_all_splits() {
        let scan = scan(
            listing(&[
                "train/b/1.jpg",
                "train/a/deep/er/2.PNG",
                "val/c/3.jpeg",
                "val/a/4.webp",
            ]),
            &Rules::plain(),
            "SRC",
        )
        .unwrap();
        assert_eq!(scan.classes, ["a", "b", "c"]);
        assert_eq!(
            samples(&scan),
            [
                ("train/a/deep/er/2".into(), "train", 0),
                ("train/b/1".into(), "train", 1),
                ("val/a/4".into(), "val", 0),
                ("val/c/3".into(), "val", 2),
            ]
        );
        assert_eq!(scan.class_sizes, [2, 1, 1]);
    }

    #[test]
    fn directories_are_classes_unless_all_of_them_name_splits() {
        let scan = scan(
            listing(&["train/1.jpg", "cat/2.jpg"]),
            &Rules::plain(),
            "SRC",
        )
        .unwrap();
        assert_eq!(scan.classes, ["cat", "train"]);
        assert_eq!(scan.splits, ["train"]);
    }

    #[test]
    fn class_order_is_by_component_and_not_by_whole_path() {
        let scan = scan(listing(&["a-b/x.jpg", "a/y.jpg"]), &Rules::plain(), "SRC").unwrap();
        assert_eq!(scan.classes, ["a", "a-b"]);
    }

    #[test]
    fn files_of_one_stem_are_the_fields_of_one_sample() {
        let scan = scan(
            listing(&[
                "c/x.json",
                "c/x.TXT",
                "c/x.jpg",
                "c/x.v1.jpg",
                "c/notes.md",
                "c/y.jpg~",
            ]),
            &Rules::plain(),
            "SRC",
        )
        .unwrap();
        let entry = scan.entries.iter().find(|e| scan.key(e) == "c/x").unwrap();
        let sample = scan.sample(entry);
        let names: Vec<_> = sample.fields.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["jpg", "json", "txt"], "the image first");
        assert_eq!(scan.entries.len(), 2);
        assert_eq!((scan.notes.odd, scan.notes.sidecars["json"]), (2, 1));
    }

    #[test]
    fn all_offenders_are_named_at_once_with_their_remedies() {
        let text = refusal(
            &[
                "c/a.jpg",
                "c/a.JPEG",
                "c/b.jpg@0",
                "c/d.jpg@9999999999",
                "c/e.jpg",
                "c/e.cls",
                "empty/",
                "loose.jpg",
            ],
            &Rules::plain(),
        );
        for part in [
            "c/a.JPEG, c/a.jpg",
            "c/b.jpg",
            "c/d.jpg",
            "c/e.cls",
            "empty/",
            "loose.jpg",
            "--allow-empty",
            "6 problems",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn what_is_left_out_is_no_problem_any_more() {
        let mut rules = Rules::plain();
        let set = |glob: &str| {
            let glob = globset::GlobBuilder::new(glob)
                .literal_separator(true)
                .build()
                .unwrap();
            globset::GlobSetBuilder::new().add(glob).build().unwrap()
        };
        rules.exclude = set("bad");
        let paths = ["c/a.jpg", "bad/b.jpg@0", "bad/deep/x.jpg"];
        let found = scan(listing(&paths), &rules, "SRC").unwrap();
        assert_eq!((found.classes.len(), found.notes.left_out), (1, 2));
        rules.include = set("c/*");
        rules.exclude = GlobSet::empty();
        let found = scan(listing(&paths), &rules, "SRC").unwrap();
        assert_eq!(found.classes, ["c"]);
    }

    #[test]
    fn flat_images_take_their_labels_from_a_file() {
        let paths = [
            "train/dog/1.jpg",
            "train/cat/2.jpg",
            "val/x.jpg",
            "val/y.jpg",
        ];
        assert!(refusal(&paths, &Rules::plain()).contains("--labels FILE"));
        let mut rules = Rules::plain();
        rules.labels = Some(Labels::parse("l.csv", b"x.jpg,dog\ny,cat\n", None).unwrap());
        let found = scan(listing(&paths), &rules, "SRC").unwrap();
        assert_eq!(
            samples(&found)[2..],
            [("val/x".into(), "val", 1), ("val/y".into(), "val", 0)]
        );
        rules.labels = Some(Labels::parse("l.csv", b"x.jpg,dog\n", None).unwrap());
        assert!(refusal(&paths, &rules).contains("val/y.jpg: no row"));
        // Numbers count the class directories.
        rules.labels = Some(Labels::parse("val.txt", b"x.jpg 1\ny.jpg 0\n", None).unwrap());
        let found = scan(listing(&paths), &rules, "SRC").unwrap();
        assert_eq!(found.classes, ["cat", "dog"]);
        assert_eq!(samples(&found)[2].2, 1);
    }

    #[test]
    fn the_ground_truth_list_goes_by_sorted_file_name() {
        let synsets = Some(("synsets.txt", b"n03\nn01\nn02\n".as_slice()));
        let mut rules = Rules::plain();
        rules.labels = Some(Labels::parse("truth.txt", b"1\n3\n", synsets).unwrap());
        let found = scan(listing(&["b.jpg", "a.jpg"]), &rules, "SRC").unwrap();
        assert_eq!(found.classes, ["n01", "n02", "n03"]);
        assert_eq!(
            samples(&found),
            [("a".into(), "train", 2), ("b".into(), "train", 1)]
        );
        assert!(refusal(&["b.jpg", "a.jpg", "c.jpg"], &rules).contains("3 images, 2 rows"));
    }

    #[test]
    fn a_named_split_takes_its_own_directory_only() {
        let mut rules = Rules::plain();
        rules.splits = vec![("val".into(), SourcePath::new("old/val"))];
        let found = scan(listing(&["old/val/c/1.jpg", "new/c/2.jpg"]), &rules, "SRC").unwrap();
        assert_eq!(samples(&found), [("old/val/c/1".into(), "val", 0)]);
        assert_eq!(found.notes.left_out, 1);
        rules.splits = vec![("val".into(), SourcePath::new("nowhere"))];
        assert!(refusal(&["c/1.jpg"], &rules).contains("no directory `nowhere`"));
    }

    #[test]
    fn a_source_without_images_says_what_an_image_is() {
        assert!(
            refusal(&["c/readme.txt"], &Rules::plain()).contains("class directory without images")
        );
        let text = refusal(&["readme.txt"], &Rules::plain());
        assert!(
            text.contains("no images") && text.contains("webp"),
            "{text}"
        );
    }
}
