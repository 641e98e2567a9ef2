//! A report: one HTML page about a dataset, a run, or both, for people.
//!
//! Values in, text out. The page stands alone and asks for nothing: pictures, style and a script that sorts tables are in it, and it forbids
//! itself everything else. Without script it lacks nothing but sorting, so it opens from a mail, offline, and under the strictest policy that
//! artifact viewers set. Its size is bounded, whatever the dataset's.

mod amounts;
mod axis;
pub(crate) mod bench;
mod chart;
mod dataset;
pub(crate) mod figures;
mod html;
mod page;
mod pictures;
pub(crate) mod run;
mod sections;
pub(crate) mod survey;

use crate::model::record::Remark;
use crate::report::page::Page;
use crate::report::run::Run;
use crate::report::sections::{
    activity, changes, classes, duplicates, gallery, head, images, outcome, remarks, samples,
    shards, usage,
};

pub(crate) use crate::report::dataset::Dataset;

/// The page about a dataset, a run, or both.
pub(crate) fn page(dataset: Option<&Dataset>, run: Option<&Run>) -> String {
    let mut page = Page::default();
    head::begin(&mut page, dataset, run);
    if let Some(run) = run {
        outcome::trouble(&mut page, run);
        outcome::findings(&mut page, run, dataset);
    }
    if let Some(dataset) = dataset {
        outcome::unread(&mut page, dataset, run);
        duplicates::write(&mut page, dataset);
    }
    if let Some(run) = run {
        changes::write(&mut page, run);
        activity::write(&mut page, run);
    }
    if let Some(dataset) = dataset {
        shards::write(&mut page, dataset);
        classes::write(&mut page, dataset);
        gallery::write(&mut page, dataset);
        images::write(&mut page, dataset);
        samples::write(&mut page, dataset);
    }
    // A run that lists none may not have looked at all of the dataset.
    let remarks = |of_dataset: fn(&Dataset) -> &Vec<Remark>, of_run: fn(&Run) -> &Vec<Remark>| {
        let own = run.map(of_run).filter(|remarks| !remarks.is_empty());
        own.or(dataset.map(of_dataset)).cloned().unwrap_or_default()
    };
    let pictures = dataset.map(|dataset| &dataset.pictures);
    remarks::write(
        &mut page,
        "Skipped",
        "Samples of the source that are not in the dataset.",
        &remarks(|dataset| &dataset.skipped, |run| &run.skipped),
        pictures,
    );
    remarks::write(
        &mut page,
        "Odd",
        "Samples that are in the dataset although something about them is unusual.",
        &remarks(|dataset| &dataset.odd, |run| &run.odd),
        pictures,
    );
    usage::write(&mut page, dataset, run);
    head::end(&mut page, dataset, run);
    page.out.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::image::{ImageFormat, ImageInfo};
    use crate::model::history::{Changes, History, Phase, Point, Setup};
    use crate::model::record::{FieldRecord, SampleRecord};
    use crate::model::sample::SourcePath;
    use crate::report::dataset::Split;
    use crate::report::figures::Figures;
    use crate::report::pictures::Pictures;
    use crate::upkeep::bench::{Bench, Cold, Rate, Readers, Training, verdict};
    use crate::upkeep::duplicates::{Duplicates, Group};
    use crate::upkeep::places::Place;
    use proptest::prelude::*;

    const HOSTILE: &str = "</title><script>alert(1)</script>\"' onload=x &amp; \u{202e}\0 data:text/html,x url(http://x)";

    /// Refuses a page that is not well formed, or that asks for anything.
    fn check(page: &str) {
        assert!(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
        let (before, rest) = page.split_once("<style>").unwrap();
        let (style, after) = rest.split_once("</style>").unwrap();
        assert!(!style.contains('<') && !style.contains("@import") && !style.contains("url("));
        let (body, end) = after.split_once("<script>").unwrap();
        assert_eq!(end, format!("{}</script></body></html>\n", head::SCRIPT));
        assert!(!head::SCRIPT.contains("</") && !head::SCRIPT.contains("http"));
        let page = format!(
            "{}{body}</body></html>",
            before.trim_start_matches("<!DOCTYPE html>\n")
        );
        let (mut open, mut ids): (Vec<&str>, Vec<&str>) = Default::default();
        for part in page.split('<').skip(1) {
            let (tag, text) = part.split_once('>').expect("a tag that does not end");
            assert!(
                !text.contains('>') && !text.contains(['\0', '\u{202e}']),
                "{part}"
            );
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "{part}");
                continue;
            }
            let name = tag.split([' ', '/']).next().unwrap();
            let known = "html head meta title body header h1 h2 h3 bdi p code pre b span main dl dt dd div small section figure figcaption \
                svg desc line path rect g img table thead tbody tr th td i ul li details summary footer";
            assert!(known.split(' ').any(|known| known == name), "{tag}");
            // The page's own policy and pictures, and nothing else that has an address or acts.
            let tag = match tag.split_once(" src=\"data:image/jpeg;base64,") {
                Some((picture, data)) if name == "img" => {
                    let data = data.strip_suffix('"').unwrap();
                    let plain = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
                    assert!(data.chars().all(plain), "{tag}");
                    picture
                }
                _ => tag,
            };
            let policy = "meta http-equiv=\"Content-Security-Policy\"";
            // A name in quotes is a name, whatever it says.
            let named = |tag: &str| {
                let parts: Vec<&str> = tag.split('"').collect();
                let quoted =
                    |at: usize| at % 2 == 1 && matches!(parts[at - 1], "img alt=" | " title=");
                let outside = (0..parts.len()).filter(|at| !quoted(*at));
                outside.map(|at| parts[at]).collect::<String>()
            };
            let bare = named(tag);
            for word in ["href", "src", "http:", "data:", "url(", "script", " on"] {
                assert!(!bare.contains(word) || tag.starts_with(policy), "{tag}");
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            assert!(!tag.contains("NaN") && !tag.contains("inf"), "{tag}");
            if let Some((_, id)) = tag.split_once(" id=\"") {
                ids.push(id.split('"').next().unwrap());
            }
            if !["meta", "img"].contains(&name) && !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert_eq!(open, [] as [&str; 0]);
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "two things have one id");
    }

    fn sample(i: u64, label: u32) -> SampleRecord {
        SampleRecord {
            key: format!("{HOSTILE}{i}"),
            label,
            image: Some(ImageInfo {
                format: ImageFormat::Jpeg,
                width: (1 + i * 37 % 9000) as u32,
                height: (1 + i * 91 % 7000) as u32,
            }),
            fields: vec![FieldRecord {
                length: 1000 + i * i % 3_000_000,
                ..FieldRecord::default()
            }],
            ..SampleRecord::default()
        }
    }

    fn remark(reason: &str) -> Remark {
        Remark {
            key: String::new(),
            path: SourcePath::new(HOSTILE.repeat(9)),
            reason: reason.to_owned(),
        }
    }

    fn dataset(classes: usize, shards: usize, splits: usize) -> Dataset {
        let mut figures = Figures::new(classes);
        for i in 0..(classes as u64 * 3).min(70_000) {
            figures.add(
                &sample(i, (i * i % classes.max(1) as u64) as u32),
                Place::default(),
            );
        }
        let split = |i: usize| Split {
            name: format!("{HOSTILE}{i}"),
            samples: figures.labels.iter().sum(),
            bytes: 1_000_000 * shards as u64,
            shards: (0..shards as u64)
                .map(|n| 900_000 + n * n % 100_000)
                .collect(),
            labels: figures
                .labels
                .iter()
                .map(|count| count * (i as u64 % 2))
                .collect(),
        };
        Dataset {
            destination: HOSTILE.to_owned(),
            name: HOSTILE.to_owned(),
            classes: (0..classes)
                .map(|i| format!("{i} {}", HOSTILE.repeat(3)))
                .collect(),
            splits: (0..splits).map(split).collect(),
            figures,
            skipped: vec![remark(&HOSTILE.repeat(20)); 3000],
            odd: vec![remark("grey\nand small"); 50],
            unread: vec![HOSTILE.repeat(30); 100],
            duplicates: duplicates(),
            pictures: pictures(),
            ..Dataset::default()
        }
    }

    fn duplicates() -> Duplicates {
        let group = Group {
            samples: 20,
            length: 9000,
            splits: vec![HOSTILE.to_owned(); 2],
            named: vec![(HOSTILE.to_owned(), Place::default(), sample(0, 0)); 9],
        };
        Duplicates {
            images: 3000,
            samples: 60_000,
            across: 2,
            groups: vec![group; 3000],
        }
    }

    /// As many bytes as there may be.
    fn pictures() -> Pictures {
        let jpeg = |i: u64| (format!("{HOSTILE}{i}"), Some(vec![i as u8; 5000]));
        Pictures {
            jpegs: (0..200).map(jpeg).collect(),
            of_classes: (0..12)
                .map(|label| {
                    (
                        label,
                        (0..4)
                            .map(|i| format!("{HOSTILE}{}", label * 4 + i))
                            .collect(),
                    )
                })
                .collect(),
            missing: None,
        }
    }

    fn run(exit_code: u8, points: usize) -> Run {
        let point = |i: usize| Point {
            seconds: i as f64 * 2.5,
            samples: (i * 50) as u64,
            bytes: (i * i * 10_000) as u64,
            retries: (i / 20) as u64,
        };
        Run {
            verb: "convert".to_owned(),
            exit_code,
            error: Some(HOSTILE.repeat(200)),
            findings: vec![HOSTILE.repeat(50); 100],
            seconds: points as f64 * 2.5,
            retries: 7,
            setup: Some(Setup {
                command: Some(HOSTILE.repeat(40)),
                source: Some(HOSTILE.to_owned()),
                ..Setup::default()
            }),
            changes: Some(Changes {
                new: points as u64,
                new_classes: vec![HOSTILE.repeat(9); 2000],
                ..Changes::default()
            }),
            history: History {
                phases: ["scan", "pack"]
                    .map(|name| Phase {
                        name: name.to_owned(),
                        seconds: 3.0,
                        of_shards: 9,
                        ..Phase::default()
                    })
                    .to_vec(),
                timeline: (0..points).map(point).collect(),
            },
            ..Run::default()
        }
    }

    #[test]
    fn a_page_is_small_and_sound_however_large_the_dataset_and_hostile_its_names() {
        let whole = page(Some(&dataset(21_841, 10_000, 50)), Some(&run(4, 241)));
        check(&whole);
        assert!(whole.len() < 2_000_000, "{} bytes", whole.len());
        assert!(whole.contains("21,841 classes") && whole.contains("10,000"));
        assert!(whole.contains("exit code 4"));
        // As many classes and shards as are shown one by one.
        let whole = page(Some(&dataset(40, 120, 4)), Some(&run(75, 2)));
        check(&whole);
        assert!(whole.len() < 2_000_000, "{} bytes", whole.len());
    }

    #[test]
    fn there_is_a_page_about_next_to_nothing() {
        for (dataset, run) in [
            (None, None),
            (None, Some(Run::default())),
            (Some(Dataset::default()), None),
            (Some(dataset(0, 0, 1)), Some(run(1, 0))),
            (Some(dataset(1, 1, 1)), Some(run(0, 1))),
            (Some(dataset(2, 2, 2)), Some(run(143, 3))),
        ] {
            check(&page(dataset.as_ref(), run.as_ref()));
        }
    }

    #[test]
    fn what_a_page_says_is_what_it_was_given() {
        let mut figures = Figures::new(3);
        for (label, count) in [(0, 30), (1, 10), (2, 0)] {
            (0..count).for_each(|i| figures.add(&sample(i, label), Place::default()));
        }
        let splits = [("train", [25, 10, 0]), ("val", [5, 0, 0])].map(|(name, labels)| Split {
            name: name.to_owned(),
            samples: labels.iter().sum(),
            bytes: 5_000_000,
            shards: vec![2_500_000; 2],
            labels: labels.to_vec(),
        });
        let dataset = Dataset {
            name: "pets".to_owned(),
            samples: 40,
            classes: ["n1", "n2", "n3"].map(str::to_owned).to_vec(),
            texts: ["cat", "dog", "emu"].map(str::to_owned).to_vec(),
            splits: splits.to_vec(),
            figures,
            ..Dataset::default()
        };
        let page = page(Some(&dataset), None);
        for part in [
            "<h1><bdi>pets</bdi></h1>",
            "1 of 3 classes without a sample; the largest has 30.",
            "<bdi>n1 (cat)</bdi></th><td class=\"n\">30</td><td class=\"n\">25</td><td class=\"n\">5</td>",
            "<b><bdi>val</bdi></b> has no sample of 1 class: n2 (dog)</p>",
            "<td class=\"n\">87.5 %</td>",
            "40 images: jpeg 40 (100.0 %)",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        check(&page);
    }

    #[test]
    fn a_page_about_rates_is_sound_whatever_was_measured() {
        check(&bench::page(&Bench::default()));
        let at = |readers: usize, images_per_second: f64| Readers {
            readers,
            rate: Rate {
                images_per_second,
                waits_ms: vec![0.0, 0.5, 3e4],
                ..Rate::default()
            },
        };
        for rates in [vec![at(1, 0.0)], vec![at(1, 0.3), at(8, 1e12)]] {
            let mut whole = Bench {
                source: HOSTILE.to_owned(),
                command: HOSTILE.repeat(9),
                dataset: HOSTILE.repeat(9),
                left_out: vec![HOSTILE.repeat(9)],
                files: rates.clone(),
                shards: rates.clone(),
                random: rates,
                training: Some(Training::default()),
                cold: Some(Cold::default()),
                target: 2000.0,
                ..Bench::default()
            };
            whole.verdict = Some(verdict(&whole, 2));
            check(&bench::page(&whole));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn a_page_of_any_numbers_is_sound(
            classes in 0..60usize, shards in 0..300usize, splits in 0..6usize, code in any::<u8>(),
            points in proptest::collection::vec((0.0..1e9f64, any::<u64>(), any::<u64>(), any::<u64>()), 0..241), error in any::<String>(),
        ) {
            let dataset = dataset(classes, shards, splits);
            let point = |&(seconds, samples, bytes, retries): &(f64, u64, u64, u64)| Point { seconds, samples, bytes, retries };
            let history = History { timeline: points.iter().map(point).collect(), ..run(0, 0).history };
            let run = Run { error: Some(error), history, ..run(code, 0) };
            check(&page(Some(&dataset), Some(&run)));
        }
    }
}
