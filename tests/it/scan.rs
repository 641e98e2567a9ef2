//! Sources and destinations that are refused, each with its name and a remedy, and odd ones that are taken.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{
    Dataset, Random, digests, is_root, padded_picture, picture, png, run, shardpack,
};

#[test]
fn a_source_that_is_not_there_is_refused() {
    let data = Dataset::new();
    fs::remove_dir(data.source()).unwrap();
    let nowhere = data.fresh();
    data.convert_to(&nowhere, &[]).exits(3).says(&[
        "source: no such file",
        "give the directory that holds the images",
    ]);
    assert!(!nowhere.exists());
}

#[test]
fn an_empty_source_is_refused() {
    Dataset::new().refuses(
        &[],
        3,
        &["source: no images", "one directory of images per class"],
    );
}

#[test]
fn a_file_instead_of_a_source_directory_is_refused() {
    let data = Dataset::new();
    fs::remove_dir(data.source()).unwrap();
    fs::write(data.source(), b"a file").unwrap();
    data.refuses(
        &[],
        3,
        &[
            "source is a file",
            "give the directory that holds the images",
        ],
    );
}

#[test]
fn a_source_without_images_is_refused_and_its_files_are_named() {
    let data = Dataset::new().file("cat/notes.txt", "no image");
    data.refuses(&["--allow-empty"], 3, &["no images", "cat/notes.txt"]);
}

#[test]
fn a_class_without_images_is_refused_unless_it_is_allowed() {
    let data = Dataset::new().class("cat", 2).dir("bird").dir("dog/below");
    data.refuses(&[], 3, &["    bird/", "    dog/", "--allow-empty"]);
    let output = data.convert(&["--allow-empty"]);
    assert_eq!(output.manifest()["classes"], json!(["bird", "cat", "dog"]));
    // It counts when classes are numbered.
    assert_eq!(output.member("cat/0000", "cls"), b"1");
    output.verify(&[]).exits(0);
}

#[test]
fn images_beside_class_directories_are_refused() {
    let data = Dataset::new()
        .class("cat", 2)
        .pictures(&["loose.jpg", "stray.png"]);
    data.refuses(
        &[],
        3,
        &[
            "2 problems",
            "    loose.jpg",
            "    stray.png",
            "move it into a class directory",
        ],
    );
}

#[test]
fn two_images_that_would_become_one_key_are_refused() {
    for other in ["cat/a.JPEG", "cat/a.png", "cat/a.JPG"] {
        let data = Dataset::new().pictures(&["cat/a.jpg", other]);
        data.refuses(&[], 3, &["cat/a.jpg", other, "rename all but one"]);
    }
}

#[test]
fn a_sidecar_that_would_hide_the_label_is_refused() {
    let data = Dataset::new()
        .class("cat", 1)
        .file("cat/0000.cls", "7")
        .file("cat/0000.json", "{}");
    data.refuses(&[], 3, &["cat/0000.cls", "rename all but one"]);
    data.refuses(
        &["--add-json", "--exclude", "**/*.cls"],
        3,
        &["cat/0000.json"],
    );
}

#[test]
fn names_that_differ_only_after_an_inner_dot_are_two_samples() {
    let data = Dataset::new().pictures(&["cat/x.v1.jpg", "cat/x.v2.jpg"]);
    let output = data.convert(&["--order", "listed"]);
    assert_eq!(output.keys(), ["cat/x~2Ev1", "cat/x~2Ev2"]);
    output
        .verify(&["--level", "source", "--source", text(&data.source())])
        .exits(0);
}

#[test]
fn odd_names_are_packed_and_their_paths_are_kept() {
    let mut long = vec![b'l'; 251];
    long.extend_from_slice(b".jpg");
    let deep = [["d".repeat(60), "e".repeat(60)].join("/"), "f.jpg".into()].join("/");
    let mut names: Vec<Vec<u8>> = [
        "a name with spaces.jpg",
        "dots.in.the.name.jpg",
        ".dot-dot..jpg",
        "ünïcødé 猫.jpg",
        "new\nline.jpg",
        "tab\tquote\"back\\slash'.jpg",
        "percent%7Etilde~.jpg",
        "-rf.jpg",
        "UPPER.JPG",
        deep.as_str(),
    ]
    .map(|name| name.as_bytes().to_vec())
    .to_vec();
    names.push(b"not \xff\xfe utf-8.jpg".to_vec());
    names.push(long);
    let mut data = Dataset::new();
    for (i, name) in names.iter().enumerate() {
        let path = [b"clas s\xc3\xa9/", name.as_slice()].concat();
        data = data.file(OsStr::from_bytes(&path), picture(&format!("odd {i}")));
    }
    let output = data.convert(&["--add-json"]);
    output
        .verify(&["--level", "source", "--source", text(&data.source())])
        .exits(0);

    let mut found: Vec<Vec<u8>> = Vec::new();
    for key in output.keys() {
        let path = match &output.row(&key)["source_path"] {
            Value::String(path) => path.clone().into_bytes(),
            bytes => unhex(bytes["hex"].as_str().unwrap()),
        };
        let content = fs::read(data.source().join(OsStr::from_bytes(&path))).unwrap();
        assert_eq!(output.member(&key, "jpg"), content, "{key}");
        found.push(path["clas sé/".len()..].to_vec());
    }
    // The one name that begins with a dot is hidden.
    names.retain(|name| !name.starts_with(b"."));
    names.sort();
    found.sort();
    assert_eq!(found, names);
}

#[test]
fn a_class_of_a_reserved_name_keeps_its_name_and_gets_keys_that_readers_see() {
    let data = Dataset::new().class("__background__", 2).class("cat", 1);
    let output = data.convert(&["--order", "listed"]);
    assert_eq!(
        output.manifest()["classes"],
        json!(["__background__", "cat"])
    );
    assert!(output.keys().contains(&"~5F_background__/0000".to_owned()));
    assert_eq!(
        output.row("~5F_background__/0001")["class"],
        "__background__"
    );
    output
        .verify(&["--level", "source", "--source", text(&data.source())])
        .exits(0);
}

#[test]
fn a_symbolic_link_that_leads_back_is_refused_with_both_its_ends() {
    let data = Dataset::new().class("cat", 2).link("cat/again", "..");
    data.refuses(&[], 3, &["cat/again -> ./", "remove the link"]);
    let data = Dataset::new()
        .class("cat", 2)
        .dir("cat/deep/er")
        .link("cat/deep/er/up", "../../../cat");
    data.refuses(&[], 3, &["cat/deep/er/up -> cat/", "remove the link"]);
}

#[test]
fn symbolic_links_to_files_and_class_directories_are_followed() {
    let data = Dataset::new().class("cat", 2);
    let elsewhere = data.place("elsewhere");
    crate::support::copy_tree(&data.source().join("cat"), &elsewhere, 0);
    let data = data
        .link("dog", "../elsewhere")
        .link("cat/linked.jpg", "../../elsewhere/0001.jpg");
    let output = data.convert(&["--order", "listed"]);
    assert_eq!(
        output.keys(),
        ["cat/0000", "cat/0001", "cat/linked", "dog/0000", "dog/0001"]
    );
    assert_eq!(
        output.member("dog/0001", "jpg"),
        output.member("cat/linked", "jpg")
    );
    output
        .verify(&["--level", "source", "--source", text(&data.source())])
        .exits(0);
}

#[test]
fn a_symbolic_link_to_nothing_is_refused_with_both_its_ends() {
    let data = Dataset::new()
        .class("cat", 2)
        .link("cat/gone.jpg", "../nowhere.jpg");
    data.refuses(
        &[],
        3,
        &[
            "cat/gone.jpg -> ../nowhere.jpg",
            "mend the permissions or the link",
        ],
    );
    data.convert(&["--exclude", "cat/gone.jpg"]);
}

#[test]
fn a_pipe_in_the_source_is_refused_and_not_waited_for() {
    let data = Dataset::new().class("cat", 2);
    let made = std::process::Command::new("mkfifo")
        .arg(data.source().join("cat/pipe.jpg"))
        .status();
    assert!(made.unwrap().success());
    data.refuses(
        &[],
        3,
        &["cat/pipe.jpg is a pipe", "leave it out with `--exclude`"],
    );
}

#[test]
fn unreadable_files_and_directories_are_all_named() {
    let data = Dataset::new().class("cat", 3).class("dog", 2);
    let close = |path: &str| {
        fs::set_permissions(data.source().join(path), Permissions::from_mode(0o000)).unwrap();
    };
    close("cat/0001.jpg");
    close("dog");
    let destination = data.open_place("open").join("output");
    let mut command = data.unprivileged(&["convert", text(&data.source()), text(&destination)]);
    run(&mut command).exits(3).says(&[
        "cannot be read (2)",
        "    cat/0001.jpg: permission denied",
        "    dog/: permission denied",
        "mend the permissions",
    ]);
    assert!(!destination.exists());
    // What is left out need not be readable.
    command.args(["--exclude", "dog", "--exclude", "cat/0001.jpg"]);
    run(&mut command).exits(0);
    fs::set_permissions(data.source().join("dog"), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_glob_leaves_out_only_the_unreadable_places_that_it_matches() {
    let data = Dataset::new().class("cat", 2).class("cat black", 2);
    let closed = data.source().join("cat black");
    fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
    let destination = data.open_place("open").join("output");
    let source = data.source();
    let args = ["convert", text(&source), text(&destination), "--exclude"];
    let mut command = data.unprivileged(&args);
    run(command.arg("cat b*")).exits(0);
    fs::remove_dir_all(&destination).unwrap();
    // The first word of the name is the name of another class, which is no reason to forget the second.
    let data = data.class("dog", 2);
    let mut command = data.unprivileged(&args);
    run(command.arg("cat"))
        .exits(3)
        .says(&["cat black/: permission denied"]);
    assert!(!destination.exists());
    fs::set_permissions(&closed, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn an_image_of_no_bytes_is_refused_and_skipped_only_when_asked_for() {
    let data = Dataset::new()
        .class("cat", 3)
        .file("cat/none.jpg", "")
        .file("cat/nil.png", "");
    data.refuses(
        &[],
        3,
        &[
            "image of zero length (2)",
            "    cat/nil.png",
            "    cat/none.jpg",
            "--on-error skip",
        ],
    );
    let output = data.convert(&["--on-error", "skip"]);
    let manifest = output.manifest();
    assert_eq!(manifest["samples"], 3);
    let mut skipped: Vec<_> = manifest["skipped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|remark| {
            (
                remark["key"].as_str().unwrap(),
                remark["path"].as_str().unwrap(),
            )
        })
        .collect();
    skipped.sort_unstable();
    assert_eq!(
        skipped,
        [("cat/nil", "cat/nil.png"), ("cat/none", "cat/none.jpg")]
    );
    output
        .verify(&["--level", "source", "--source", text(&data.source())])
        .exits(0);
}

#[test]
fn every_problem_of_a_source_is_told_at_once() {
    let data = Dataset::new()
        .pictures(&["cat/a.jpg", "cat/a.png", "loose.jpg"])
        .file("cat/none.jpg", "")
        .dir("empty")
        .link("cat/gone.jpg", "nowhere")
        .link("cat/loop", "..");
    data.refuses(
        &[],
        3,
        &[
            "6 problems",
            "cat/a.png",
            "loose.jpg",
            "cat/none.jpg",
            "empty/",
            "nowhere",
            "cat/loop",
        ],
    );
}

#[test]
fn a_file_over_the_shard_size_gets_a_shard_of_its_own_and_a_warning() {
    let data = Dataset::new()
        .class("cat", 20)
        .file("cat/large.jpg", padded_picture("large", 200_000));
    let output = data.convert(&["--shard-size", "50kB"]);
    output.run.says(&[
        "WARN",
        "cat/large",
        "over `--shard-size` 50000",
        "raise `--shard-size`",
    ]);
    let shard = output.row("cat/large")["shard"].clone();
    let manifest = output.manifest();
    for entry in manifest["splits"][0]["shards"].as_array().unwrap() {
        if entry["name"] == shard {
            assert_eq!(entry["samples"], 1);
        } else {
            assert!(entry["bytes"].as_u64().unwrap() <= 50_000, "{entry}");
        }
    }
    output.verify(&[]).exits(0);
}

#[test]
fn a_file_too_large_for_the_format_is_refused_before_a_byte_is_read() {
    let data = Dataset::new().class("cat", 2);
    let path = data.source().join("cat/huge.jpg");
    let file = File::create(&path).unwrap();
    if let Err(error) = file.set_len(9 << 30) {
        eprintln!("not tested: no file with holes can be made here: {error}");
        return;
    }
    data.refuses(
        &[],
        3,
        &[
            "cat/huge.jpg: 9663676416 bytes",
            "8 GiB",
            "leave it out with `--exclude`",
        ],
    );
    data.convert(&["--exclude", "cat/huge.jpg"]);
}

#[test]
fn a_destination_inside_the_source_is_refused() {
    let data = Dataset::new().class("cat", 2);
    for inside in ["cat", "shards", "deep/er/shards"] {
        let destination = data.source().join(inside);
        let before = digests(&data.source());
        data.convert_to(&destination, &[]).exits(2);
        assert_eq!(before, digests(&data.source()));
    }
    // By a detour as well, and the source itself.
    data.convert_to(&data.source().join("../source/x"), &[])
        .exits(2);
    data.convert_to(&data.source(), &[])
        .exits(2)
        .says(&["source", "choose"]);
    let data = data.link("cat/way-out", "../..");
    let run = data.convert_to(
        &data.source().join("cat/way-out/shards"),
        &["--exclude", "**/way-out"],
    );
    run.exits(0);
}

#[test]
fn a_source_inside_the_destination_is_refused() {
    let data = Dataset::new().class("cat", 2);
    let destination = data.source().parent().unwrap().to_owned();
    let before = digests(&destination);
    data.convert_to(&destination, &[]).exits(2);
    assert_eq!(before, digests(&destination));
}

#[test]
fn a_destination_with_files_of_somebody_else_is_refused() {
    let data = Dataset::new().class("cat", 2);
    let destination = data.place("theirs");
    fs::create_dir(&destination).unwrap();
    fs::write(destination.join("thesis.txt"), b"years of work").unwrap();
    let before = digests(&destination);
    let run = data.convert_to(&destination, &[]);
    run.exits(2).says(&[
        "theirs is not empty",
        "thesis.txt",
        "choose an empty or new destination",
    ]);
    assert_eq!(before, digests(&destination));
    // A file where the directory should be.
    data.convert_to(&destination.join("thesis.txt"), &[])
        .exits(2)
        .says(&["thesis.txt is a file", "give a directory"]);
    assert_eq!(before, digests(&destination));
}

#[test]
fn an_empty_destination_directory_is_taken() {
    let data = Dataset::new().class("cat", 2);
    let destination = data.place("empty");
    fs::create_dir(&destination).unwrap();
    data.convert_to(&destination, &[]).exits(0);
}

#[test]
fn a_destination_of_another_plan_is_left_alone() {
    let data = Dataset::new().class("cat", 4);
    let published = data.convert(&[]);
    let before = published.digests();
    for flags in [["--seed", "1"], ["--shards", "2"], ["--name", "other"]] {
        data.convert_to(&published.path, &flags)
            .exits(10)
            .says(&["was made with other options", "choose another destination"]);
        assert_eq!(before, published.digests());
    }
    let planned = data.fresh();
    run(shardpack(&["plan"]).arg(data.source()).arg(&planned)).exits(0);
    let before = digests(&planned);
    data.convert_to(&planned, &["--seed", "1"])
        .exits(10)
        .says(&["belongs to another plan"]);
    assert_eq!(before, digests(&planned));
}

#[test]
fn only_images_by_name_count_as_images() {
    let data = Dataset::new()
        .class("cat", 1)
        .file("cat/picture.PNG", png(1))
        .file("cat/readme", "no extension")
        .file("cat/alone.txt", "no image has this name")
        .file("cat/.hidden.jpg", picture("hidden"));
    let output = data.convert(&["--order", "listed"]);
    assert_eq!(output.keys(), ["cat/0000", "cat/picture"]);
}

#[test]
fn a_random_tree_is_packed_whole() {
    let mut random = Random::new(3);
    let mut data = Dataset::new();
    for i in 0..60 {
        let mut path = format!("c{}", random.below(5));
        for _ in 0..random.below(4) {
            path.push_str(&format!("/d{}", random.below(3)));
        }
        data = data.pictures(&[format!("{path}/{i}.jpg")]);
    }
    let output = data.convert(&["--shards", "3"]);
    assert_eq!(output.manifest()["samples"], 60);
    output
        .verify(&["--level", "source", "--source", text(&data.source())])
        .exits(0);
}

#[test]
fn a_directory_of_tests_that_runs_as_root_checks_permissions_as_somebody_else() {
    let data = Dataset::new().class("cat", 1);
    fs::set_permissions(
        data.source().join("cat/0000.jpg"),
        Permissions::from_mode(0o000),
    )
    .unwrap();
    let destination = data.open_place("open").join("output");
    let source = data.source();
    let args = ["convert", text(&source), text(&destination)];
    run(&mut data.unprivileged(&args)).exits(3);
    if is_root() {
        run(&mut shardpack(&args)).exits(0);
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect()
}
