//! A source that changes between planning and packing, and destinations that cannot take the data.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{
    Dataset, Memory, Run, digests, is_root, padded_picture, picture, run, set_modified, shardpack,
};

/// Plans, changes the source, packs; gives what packing and publishing said.
fn changed(change: impl FnOnce(&Path)) -> (Run, Run) {
    let data = Dataset::new().class("cat", 6).class("dog", 6);
    let destination = data.fresh();
    run(shardpack(&["plan", "--shards", "3"])
        .arg(data.source())
        .arg(&destination))
    .exits(0);
    change(&data.source().join("cat/0003.jpg"));
    let packed = run(shardpack(&["pack"]).arg(&destination));
    let published = run(shardpack(&["publish"]).arg(&destination));
    assert!(!destination.join("manifest.json").exists());
    // What is at fault is never left out in silence.
    run(shardpack(&["pack", "--on-error", "skip"]).arg(&destination))
        .exits(3)
        .says(&["cat/0003.jpg"]);
    (packed, published)
}

#[test]
fn a_file_that_grew_after_planning_is_named() {
    let (packed, published) = changed(|path| {
        let mut file = File::options().append(true).open(path).unwrap();
        file.write_all(b"more").unwrap();
        drop(file);
        set_modified(path, 0);
    });
    packed
        .exits(3)
        .says(&["cat/0003.jpg", "planned as", "make a new plan"]);
    published
        .exits(1)
        .says(&["not packed yet", "shardpack pack"]);
}

#[test]
fn a_file_that_shrank_after_planning_is_named() {
    let (packed, published) = changed(|path| {
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(10)
            .unwrap();
        set_modified(path, 0);
    });
    packed
        .exits(3)
        .says(&["cat/0003.jpg", "is 10 bytes, planned as", "make a new plan"]);
    published.exits(1);
}

#[test]
fn a_file_that_vanished_after_planning_is_named() {
    let (packed, published) = changed(|path| fs::remove_file(path).unwrap());
    packed
        .exits(3)
        .says(&["cat/0003.jpg", "vanished", "make a new plan"]);
    published.exits(1);
}

#[test]
fn a_file_that_was_replaced_after_planning_is_named() {
    let (packed, published) = changed(|path| {
        let length = fs::metadata(path).unwrap().len() as usize;
        let mut other = picture("another");
        other.resize(length, 0);
        fs::write(path, other).unwrap();
        set_modified(path, 5);
    });
    packed.exits(3).says(&[
        "cat/0003.jpg",
        "written to after planning",
        "make a new plan",
    ]);
    published.exits(1);
}

#[test]
fn a_streamed_file_that_changed_after_planning_is_named() {
    let data = Dataset::new()
        .class("cat", 2)
        .file("cat/large.jpg", padded_picture("large", 3 << 20));
    let destination = data.fresh();
    run(shardpack(&["plan"]).arg(data.source()).arg(&destination)).exits(0);
    set_modified(&data.source().join("cat/large.jpg"), 5);
    // So little memory that a file of three megabytes is streamed.
    run(shardpack(&["pack", "--jobs", "1", "--reads", "1", "--memory", "36MiB"]).arg(&destination))
        .exits(3)
        .says(&["cat/large", "make a new plan"]);
}

#[test]
fn a_full_disk_is_told_and_the_same_command_goes_on_when_there_is_room() {
    let mut data = Dataset::new();
    for i in 0..40 {
        let name = format!("cat/{i:02}.jpg");
        data = data.file(&name, padded_picture(&name, 60_000));
    }
    let flags = ["--shard-size", "300kB", "--jobs", "1"];
    // Its bytes suffice, so that nothing is refused before the first; what it runs out of is files.
    let Some(disk) = Memory::mount(data.place("disk"), "size=16m,nr_inodes=17") else {
        return;
    };
    let destination = data.place("disk").join("output");
    data.convert_to(&destination, &flags).exits(1).says(&[
        "train-0000",
        "no space left on device",
        "free some space and run again",
    ]);
    assert!(!destination.join("manifest.json").exists());
    let left = digests(&destination);
    assert!(left.keys().all(|name| !name.ends_with(".tmp")), "{left:?}");

    disk.remount("size=16m,nr_inodes=1000");
    data.convert_to(&destination, &flags)
        .exits(0)
        .says(&["already done"]);
    assert_eq!(digests(&destination), data.convert(&flags).digests());
}

#[test]
fn a_destination_on_a_read_only_file_system_is_told() {
    let data = Dataset::new().class("cat", 2);
    let Some(disk) = Memory::mount(data.place("disk"), "size=1m") else {
        return;
    };
    disk.remount("ro");
    data.convert_to(&data.place("disk").join("output"), &[])
        .exits(1)
        .says(&[
            "disk/output",
            "read-only file system",
            "choose a destination that can be written to",
        ]);
}

#[test]
fn a_destination_that_this_user_may_not_write_to_is_told() {
    let data = Dataset::new().class("cat", 2);
    let closed = data.place("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o555)).unwrap();
    let destination = closed.join("output");
    let args = [
        "convert",
        data.source().to_str().unwrap(),
        destination.to_str().unwrap(),
    ]
    .map(str::to_owned);
    run(&mut data.unprivileged(&args.each_ref().map(String::as_str)))
        .exits(1)
        .says(&[
            "closed/output",
            "permission denied",
            "check the permissions",
        ]);
    assert!(!destination.exists());
    if !is_root() {
        fs::set_permissions(&closed, Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn files_are_made_for_everyone_that_the_umask_allows() {
    let data = Dataset::new().class("cat", 2);
    let output = data.convert(&[]);
    for file in crate::support::files(&output.path) {
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0, "{}", file.display());
        assert_ne!(mode & 0o400, 0, "{}", file.display());
    }
}

#[test]
fn a_source_that_moved_is_found_by_the_flag() {
    let data = Dataset::new().class("cat", 4);
    let (destination, moved) = (data.fresh(), data.place("moved"));
    run(shardpack(&["plan"]).arg(data.source()).arg(&destination)).exits(0);
    fs::rename(data.source(), &moved).unwrap();
    run(shardpack(&["pack"]).arg(&destination))
        .exits(75)
        .says(&["source: the source is gone", "say where it is now"]);
    run(shardpack(&["pack"])
        .arg(&destination)
        .arg("--source")
        .arg(&moved))
    .exits(0);
    run(shardpack(&["publish"]).arg(&destination)).exits(0);
}

#[test]
fn a_verb_that_needs_a_plan_or_a_manifest_says_how_to_get_one() {
    let data = Dataset::new();
    let nothing = data.fresh();
    run(shardpack(&["pack"]).arg(&nothing))
        .exits(2)
        .says(&["holds no plan", "shardpack plan"]);
    run(shardpack(&["publish"]).arg(&nothing))
        .exits(2)
        .says(&["holds no plan", "shardpack plan"]);
    run(shardpack(&["inspect"]).arg(&nothing))
        .exits(1)
        .says(&["manifest.json", "shardpack convert"]);
    run(shardpack(&["verify"]).arg(&nothing))
        .exits(1)
        .says(&["neither a manifest.json nor any tar or TFRecord"]);
    assert!(!nothing.exists());
}
