//! Archives as directories: the shards are the same bytes as from the unpacked tree, locally and on S3.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use shardpack_fixtures::archives::{
    Dialect, Files, ImageNet, Tar, ZipOptions, gzip, tar_of_tars, zip,
};
use shardpack_fixtures::s3_server::Server;

use crate::s3::at;
use crate::support::{
    Dataset, Digests, Run, digests, files, padded_picture, picture, run, set_modified, shardpack,
    write,
};

/// Names that every archive can have, and some that need the long forms.
fn paths() -> Vec<String> {
    let mut paths = Vec::new();
    for class in ["cat", "dog", "a b.c"] {
        for number in 0..14 {
            paths.push(format!("{class}/{number:04}.JPEG"));
        }
        paths.push(format!("{class}/deep/er/x.png.jpg"));
    }
    paths
}

/// An unpacked tree, and its files.
fn tree() -> (Dataset, Files) {
    let data = Dataset::new().pictures(&paths());
    let read = |path: String| {
        let content = fs::read(data.source().join(&path)).unwrap();
        (path, content)
    };
    let files = paths().into_iter().map(read).collect();
    (data, files)
}

/// The shards alone.
pub(crate) fn shards(destination: &Path) -> Digests {
    let mut all = digests(destination);
    all.retain(|name, _| name.starts_with("data/"));
    assert!(!all.is_empty());
    all
}

pub(crate) fn convert(source: &Path, destination: &Path, flags: &[&str]) -> Run {
    run(shardpack(&["convert"])
        .arg(source)
        .arg(destination)
        .args(flags))
}

const FLAGS: [&str; 3] = ["--shards", "3", "--add-json"];

/// Everything that these files can be packed in, by the archive's name.
fn every_archive(files: &Files) -> BTreeMap<&'static str, Vec<u8>> {
    let tar = |dialect| {
        let mut tar = Tar::new(dialect);
        for (path, content) in files.iter().rev() {
            tar.file(&format!("./{path}"), content);
        }
        tar.finish()
    };
    let entries: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(path, content)| (path.as_str(), &content[..]))
        .collect();
    let zipped = |deflated, zip64, described_later| {
        let options = ZipOptions {
            deflated,
            zip64,
            described_later,
            ..ZipOptions::default()
        };
        zip(&entries, options)
    };
    let inner = tar_of_tars(files);
    let stored = zip(
        &[("set/", b""), ("set/all.tar", &inner)],
        ZipOptions::default(),
    );
    BTreeMap::from([
        ("v7.tar", tar(Dialect::V7)),
        ("ustar.tar", tar(Dialect::Ustar)),
        ("gnu.TAR", tar(Dialect::Gnu)),
        ("pax.tar", tar(Dialect::Pax)),
        ("small.tar.gz", gzip(&tar(Dialect::Gnu))),
        ("small.tgz", gzip(&tar_of_tars(files))),
        (
            "small.tar.zst",
            zstd::encode_all(&tar(Dialect::Ustar)[..], 1).unwrap(),
        ),
        ("tars.tar", inner),
        ("stored.zip", zipped(false, false, false)),
        ("deflated.zip", zipped(true, false, true)),
        ("large.zip", zipped(true, true, false)),
        ("tar-in.zip", stored),
    ])
}

#[test]
fn shards_are_the_same_bytes_from_every_archive_as_from_the_tree() {
    let (data, files) = tree();
    for order in ["shuffled", "listed"] {
        every_archive_gives_the_bytes_of_the_tree(&data, &files, order);
    }
}

fn every_archive_gives_the_bytes_of_the_tree(data: &Dataset, files: &Files, order: &str) {
    let flags = [&FLAGS[..], &["--order", order]].concat();
    let expected = shards(&data.convert(&flags).path);
    for (name, content) in every_archive(files) {
        let archive = data.place(name);
        write(&archive, &content);
        let out = data.fresh();
        // The archive of a tar in a zip lies two directories down, and is the only split.
        let inside = name == "tar-in.zip";
        let split: &[&str] = if inside {
            &["--split", "train=set/all.tar"]
        } else {
            &[]
        };
        let flags = [&flags[..], split].concat();
        convert(&archive, &out, &flags).exits(0);
        if inside {
            assert_eq!(shards(&out).len(), expected.len());
        } else {
            assert_eq!(shards(&out), expected, "{name}");
        }
        run(shardpack(&["verify", "--level", "source", "--source"])
            .arg(&archive)
            .arg(&out))
        .exits(0);
    }
}

#[test]
fn an_archive_below_the_source_counts_as_the_directory_of_its_name() {
    let (data, files) = tree();
    let unpacked = Dataset::new();
    for (path, content) in &files {
        write(&unpacked.source().join("train").join(path), content);
        write(&unpacked.source().join("val").join(path), content);
    }
    let expected = shards(&unpacked.convert(&FLAGS).path);
    let packed = Dataset::new().file("train.tar", tar_of_tars(&files));
    for (path, content) in &files {
        write(&packed.source().join("val").join(path), content);
    }
    let output = packed.convert(&FLAGS);
    assert_eq!(shards(&output.path), expected);
    let row = output.row("train/cat/0003");
    assert_eq!(row["source_path"], "train.tar!/cat.tar!/0003.JPEG", "{row}");
    for split in ["here=train.tar", "here=train", "here=train.tar!"] {
        let one = packed.convert(&["--split", split, "--shards", "1"]);
        assert_eq!(one.manifest()["samples"], files.len(), "{split}");
    }
    drop(data);
}

#[test]
fn long_names_come_out_of_every_dialect_that_has_them() {
    let long = format!(
        "{}/{}.jpg",
        "directory-with-a-name/".repeat(5).trim_end_matches('/'),
        "n".repeat(90)
    );
    let data = Dataset::new().class("cat", 2).pictures(&[&long]);
    let expected = shards(&data.convert(&FLAGS).path);
    let all: Vec<PathBuf> = files(&data.source());
    for dialect in [Dialect::Ustar, Dialect::Gnu, Dialect::Pax] {
        let mut tar = Tar::new(dialect);
        for file in &all {
            let path = file.strip_prefix(data.source()).unwrap().to_str().unwrap();
            tar.file(path, &fs::read(file).unwrap());
        }
        let archive = data.place("long.tar");
        write(&archive, &tar.finish());
        let out = data.fresh();
        convert(&archive, &out, &FLAGS).exits(0);
        assert_eq!(shards(&out), expected, "{dialect:?}");
    }
}

#[test]
fn links_in_an_archive_are_the_files_that_they_lead_to_and_hidden_ones_are_counted() {
    let data = Dataset::new().class("cat", 1).class("dog", 1);
    let mut tar = Tar::new(Dialect::Gnu);
    let mut unpacked = Dataset::new();
    let content = picture("one");
    for path in ["cat/a.jpg", "cat/hard.jpg", "dog/soft.jpg", "dog/again.jpg"] {
        unpacked = unpacked.file(path, &content);
    }
    tar.directory("cat")
        .directory("dog")
        .link("dog/again.jpg", "dog/soft.jpg", true);
    tar.link("dog/soft.jpg", "../cat/./a.jpg", false);
    tar.file("cat/a.jpg", &content)
        .link("cat/hard.jpg", "./cat/a.jpg", true);
    tar.file("cat/._a.jpg", b"x")
        .file(".git/x/y.jpg", b"x")
        .file(".git/z.jpg", b"x");
    let archive = data.place("links.tar");
    write(&archive, &tar.finish());
    let out = data.fresh();
    convert(&archive, &out, &FLAGS).exits(0);
    assert_eq!(shards(&out), shards(&unpacked.convert(&FLAGS).path));
    let dry = convert(&archive, &data.fresh(), &["--dry-run"]);
    dry.exits(0).says(&["hidden"]);
    let line = dry
        .out
        .lines()
        .find(|line| line.contains("hidden"))
        .unwrap();
    assert!(line.contains('2'), "{line}");
}

#[test]
fn a_directory_and_an_archive_of_one_name_are_refused_with_both() {
    let data = Dataset::new().class("n01", 2).class("n02", 2);
    let mut tar = Tar::new(Dialect::Gnu);
    tar.file("0001.png", &picture("x"));
    let data = data.file("n01.tar", tar.finish());
    data.refuses(&[], 3, &["n01/0001.jpg", "n01.tar!/0001.png"]);
}

#[test]
fn an_archive_that_nobody_wants_is_not_opened() {
    let data = Dataset::new()
        .class("cat", 2)
        .file("devkit.tar.gz", b"no archive")
        .file("x/y.zip", b"neither");
    data.refuses(&[], 3, &["devkit.tar.gz: ", "x/y.zip: ", "--exclude"]);
    for flags in [
        ["--exclude", "*.tar.gz", "--exclude", "**/*.zip"],
        ["--exclude", "devkit", "--exclude", "x"],
    ] {
        let flags = [&flags[..], &["--dry-run"]].concat();
        convert(&data.source(), &data.fresh(), &flags)
            .exits(0)
            .says(&["1 class", "left out  2 files"]);
    }
    let mut tar = Tar::new(Dialect::Gnu);
    tar.file("bad.tar", b"no archive")
        .file("cat/x.jpg", &picture("x"));
    let outer = data.place("outer.tar");
    write(&outer, &tar.finish());
    for glob in ["bad", "bad.tar", "*.tar"] {
        convert(&outer, &data.fresh(), &["--exclude", glob, "--dry-run"])
            .exits(0)
            .says(&["1 class"]);
    }
}

#[test]
fn a_member_that_cannot_be_packed_is_left_out_by_the_path_that_counts() {
    let data = Dataset::new();
    let mut tar = Tar::new(Dialect::Gnu);
    tar.file("cat/x.jpg", &picture("x"))
        .member("cat/pipe", "", b'6', b"");
    write(&data.source().join("train.tar"), &tar.finish());
    data.refuses(&[], 3, &["train.tar!/cat/pipe is a pipe, at "]);
    let flags = ["--exclude", "train/cat/pipe"];
    assert_eq!(data.convert(&flags).manifest()["samples"], 1);
}

#[test]
fn a_run_that_is_up_to_date_does_not_walk_again_until_the_archive_changes() {
    let (data, mut files) = tree();
    let archive = data.place("all.tar");
    write(&archive, &tar_of_tars(&files));
    let out = data.fresh();
    convert(&archive, &out, &FLAGS).exits(0);
    // Another content of the same length and time shows that no header is read: it is an empty archive.
    let length = fs::metadata(&archive).unwrap().len() as usize;
    fs::write(&archive, vec![0; length]).unwrap();
    set_modified(&archive, 0);
    convert(&archive, &out, &FLAGS)
        .exits(0)
        .says(&["up to date"]);
    // Walks that are lost or damaged are made again.
    let kept: Vec<PathBuf> = crate::support::files(&out)
        .into_iter()
        .filter(|path| path.ends_with("walks"))
        .collect();
    assert_eq!(kept.len(), 1);
    let walks = fs::read(&kept[0]).unwrap();
    write(&archive, &tar_of_tars(&files));
    for damaged in [None, Some(walks[..walks.len() - 1].to_vec())] {
        match damaged {
            None => fs::remove_file(&kept[0]).unwrap(),
            Some(bytes) => fs::write(&kept[0], bytes).unwrap(),
        }
        convert(&archive, &out, &FLAGS)
            .exits(0)
            .says(&["up to date"]);
        assert_eq!(fs::read(&kept[0]).unwrap(), walks);
    }
    run(shardpack(&["verify"]).arg(&out)).exits(0);
    run(shardpack(&["gc", "--older-than", "0s"]).arg(&out)).exits(0);
    assert!(kept[0].exists());
    // What grew is packed, and nothing else.
    files.insert("cat/9999.JPEG".to_owned(), picture("new"));
    write(&archive, &tar_of_tars(&files));
    set_modified(&archive, 100);
    let grown = convert(
        &archive,
        &out,
        &[&FLAGS[..], &["--on-change", "keep"]].concat(),
    );
    grown.exits(0);
    assert_eq!(crate::support::manifest(&out)["samples"], files.len());
}

#[test]
fn an_archive_that_changed_after_planning_is_refused() {
    let (data, files) = tree();
    for (name, content) in every_archive(&files) {
        let archive = data.place(name);
        write(&archive, &content);
        let out = data.fresh();
        run(
            shardpack(&["plan", "--shards", "2", "--layout", "imagefolder"])
                .arg(&archive)
                .arg(&out),
        )
        .exits(0);
        set_modified(&archive, 50);
        let refused = run(shardpack(&["pack"]).arg(&out));
        refused.exits(3).says(&[name, "make a new plan"]);
    }
}

#[test]
fn a_killed_run_over_an_archive_goes_on_to_the_same_bytes() {
    let (data, files) = tree();
    let archive = data.place("all.tar");
    write(&archive, &tar_of_tars(&files));
    let expected = shards(&data.convert(&FLAGS).path);
    let out = data.fresh();
    run(shardpack(&["plan"]).args(FLAGS).arg(&archive).arg(&out)).exits(0);
    run(shardpack(&["pack", "--worker", "0/2"]).arg(&out)).exits(0);
    assert!(shards(&out).len() < expected.len());
    convert(&archive, &out, &FLAGS).exits(0);
    assert_eq!(shards(&out), expected);
}

#[test]
fn a_damaged_shard_is_made_again_from_the_archive() {
    let (data, files) = tree();
    let archive = data.place("all.zip");
    let entries: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(path, content)| (path.as_str(), &content[..]))
        .collect();
    write(&archive, &zip(&entries, ZipOptions::default()));
    let out = data.fresh();
    run(shardpack(&["plan"]).args(FLAGS).arg(&archive).arg(&out)).exits(0);
    run(shardpack(&["pack", "--publish-when-complete"]).arg(&out)).exits(0);
    let expected = shards(&out);
    let shard = crate::support::files(&out.join("data")).remove(1);
    fs::write(&shard, b"gone").unwrap();
    run(shardpack(&["repair"]).arg(&out)).exits(0);
    assert_eq!(shards(&out).len(), expected.len());
    run(shardpack(&["verify", "--level", "source", "--source"])
        .arg(&archive)
        .arg(&out))
    .exits(0);
}

#[test]
fn large_members_are_read_in_pieces_and_their_checksums_compared() {
    let data = Dataset::new();
    let files: Files = (0..3)
        .map(|i| {
            (
                format!("c/{i}.jpg"),
                padded_picture(&format!("{i}"), 9_500_000 + i),
            )
        })
        .collect();
    let entries: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(path, content)| (path.as_str(), &content[..]))
        .collect();
    for (path, content) in &files {
        write(&data.source().join(path), content);
    }
    let expected = shards(&data.convert(&["--shards", "1"]).path);
    for deflated in [false, true] {
        let archive = data.place("large.zip");
        let options = ZipOptions {
            deflated,
            ..ZipOptions::default()
        };
        let mut content = zip(&entries, options);
        write(&archive, &content);
        let out = data.fresh();
        convert(&archive, &out, &["--shards", "1"]).exits(0);
        assert_eq!(shards(&out), expected);
        content[5_000_000] ^= 1;
        write(&archive, &content);
        let refused = convert(&archive, &data.fresh(), &["--shards", "1"]);
        refused.exits(3).says(&["c/0.jpg", "damaged"]);
    }
}

#[test]
fn imagenet_as_it_is_handed_out_is_a_tree() {
    let mut set = ImageNet::default();
    for (wnid, numbers) in [("n01440764", 5), ("n01443537", 4)] {
        for number in 0..numbers {
            let name = format!("{wnid}_{number}");
            set.train
                .insert((wnid.to_owned(), number * 7 + 2), picture(&name));
        }
    }
    set.val = (0..6)
        .map(|i| (picture(&format!("val{i}")), i % 2 + 1))
        .collect();
    set.test = (0..3).map(|i| picture(&format!("test{i}"))).collect();
    let data = Dataset::new();
    set.write(&data.source());
    let unpacked = Dataset::new();
    for (path, content) in set.train_files() {
        write(&unpacked.source().join("train").join(path), &content);
    }
    let flags = ["--split", "train=ILSVRC2012_img_train.tar"];
    let output = data.convert(&flags);
    assert_eq!(output.manifest()["samples"], 9);
    let dry = convert(
        &data.source(),
        &data.fresh(),
        &[&flags[..], &["--dry-run"]].concat(),
    );
    dry.exits(0).says(&["9 in 2 classes"]);
    let row = output.row("ILSVRC2012_img_train/n01440764/n01440764_2");
    assert_eq!(
        row["source_path"], "ILSVRC2012_img_train.tar!/n01440764.tar!/n01440764_2.JPEG",
        "{row}"
    );
}

#[test]
fn members_that_lie_side_by_side_in_a_bucket_are_read_in_few_requests() {
    let (data, files) = tree();
    let server = Server::start();
    let mut tar = Tar::new(Dialect::Pax);
    for (path, content) in &files {
        tar.file(path, content);
    }
    server.put("sets/sorted.tar", tar.finish());
    let reads = |order: &str| {
        server.clear_requests();
        let out = data.fresh();
        let flags = ["--shards", "1", "--order", order];
        let mut command = at(&server, &["convert", "s3://bucket/sets/sorted.tar"]);
        run(command.arg(&out).args(flags)).exits(0);
        assert_eq!(shards(&out), shards(&data.convert(&flags).path));
        server.count("GetObject")
    };
    // One or two for the listing, and one that gives all members: as near to each other they are in any order.
    for order in ["shuffled", "listed"] {
        let count = reads(order);
        assert!(count <= 4 && count < files.len(), "{order}: {count} reads");
    }
}

#[test]
fn of_members_that_are_read_together_the_damaged_one_is_told() {
    let (data, files) = tree();
    let mut entries: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(path, content)| (path.as_str(), &content[..]))
        .collect();
    entries.sort();
    let mut archive = zip(&entries, ZipOptions::default());
    let path = "dog/0003.JPEG";
    let content = &files.iter().find(|(name, _)| *name == path).unwrap().1;
    let at_byte = archive
        .windows(content.len())
        .position(|part| part == &content[..]);
    archive[at_byte.unwrap() + 40] ^= 1;
    let server = Server::start();
    server.put("sets/damaged.zip", archive);
    let mut command = at(&server, &["convert", "s3://bucket/sets/damaged.zip"]);
    let told = run(command.arg(data.fresh()).args(["--order", "listed"]));
    told.exits(3).says(&[path, "crc"]);
}

#[test]
fn archives_in_a_bucket_make_the_same_shards() {
    let (data, files) = tree();
    let expected = shards(&data.convert(&FLAGS).path);
    let server = Server::start();
    for (name, content) in every_archive(&files) {
        server.put(&format!("sets/{name}"), content);
        if name == "tar-in.zip" {
            continue;
        }
        let out = data.fresh();
        let source = format!("s3://bucket/sets/{name}");
        let mut command = at(&server, &["convert", &source]);
        run(command.arg(&out).args(FLAGS)).exits(0);
        assert_eq!(shards(&out), expected, "{name}");
        let before = server.requests().len();
        let again = run(at(&server, &["convert", &source]).arg(&out).args(FLAGS));
        again.exits(0).says(&["up to date"]);
        assert!(
            server.requests().len() - before <= 3,
            "it was walked through again"
        );
    }
}
