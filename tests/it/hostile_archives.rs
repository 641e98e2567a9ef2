//! Archives that were made to harm, or came to harm: refused with the archive, the member and the place, in bounded memory and time.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use shardpack_fixtures::archives::{Dialect, Tar, ZipOptions, gzip, header, zip};

use crate::support::{Dataset, Run, picture, run, shardpack};

/// Most memory that a run may take.
const MOST_BYTES: u64 = 256 << 20;
/// Longest that one may take, on a busy machine.
const LONGEST: Duration = Duration::from_secs(30);

/// Converts an archive of this name, which must not end well.
fn refused(name: &str, write: impl FnOnce(&Path)) -> Run {
    let data = Dataset::new();
    let archive = data.place(name);
    write(&archive);
    let (out, summary) = (data.fresh(), data.place("summary.json"));
    let begun = Instant::now();
    let mut command = shardpack(&["convert"]);
    command
        .arg(&archive)
        .arg(&out)
        .arg("--summary")
        .arg(&summary);
    let run = run(&mut command);
    run.exits(3).says(&[name]);
    assert!(
        begun.elapsed() < LONGEST,
        "{:?}: {}",
        begun.elapsed(),
        run.err
    );
    assert!(!out.join("manifest.json").exists());
    let control = run.err.chars().any(|c| c.is_control() && c != '\n');
    assert!(!control && !run.err.contains("panicked"), "{}", run.err);
    let summary: Value = serde_json::from_slice(&fs::read(summary).unwrap()).unwrap();
    let peak = summary["peak_rss_bytes"].as_u64().unwrap();
    assert!(peak <= MOST_BYTES, "{peak} bytes: {}", run.err);
    run
}

#[track_caller]
fn refuses(name: &str, content: &[u8], words: &[&str]) {
    refused(name, |archive| fs::write(archive, content).unwrap()).says(words);
}

fn gnu() -> Tar {
    let mut tar = Tar::new(Dialect::Gnu);
    tar.file("cat/a.jpg", &picture("a"));
    tar
}

#[test]
fn a_tar_that_ends_early_or_says_it_is_longer_is_refused() {
    let whole = gnu().file("cat/b.jpg", &picture("b")).finish();
    let second = 512 + picture("a").len().next_multiple_of(512);
    for (end, words) in [
        (second + 700, "cut short, at"),
        (second + 512, "cut short, at"),
        (second + 100, "no end marker"),
        (second, "no end marker"),
        (100, "no end marker"),
        (0, "no end marker"),
    ] {
        refuses("x.tar", &whole[..end], &[words]);
    }
    refuses(
        "x.tar",
        &gnu().header("b.jpg", "", b'0', 10 << 30).finish(),
        &["10737418240 bytes where"],
    );
    refuses(
        "x.tar",
        &gnu().header("b.jpg", "", b'0', u64::MAX - 5).finish(),
        &["bytes where"],
    );
    refuses(
        "x.tar",
        &gnu().bytes(&[7; 512]).finish(),
        &["no tar header where one must be, at"],
    );
    let joined = [gnu().finish(), gnu().finish()].concat();
    refuses("x.tar", &joined, &["follows the end marker, at 10240"]);
    refuses("x.tar", b"GIF89a", &["no end marker"]);
}

#[test]
fn names_that_lead_elsewhere_or_occur_twice_are_refused() {
    for name in [
        "../x.jpg",
        "/etc/x.jpg",
        "cat/../../x.jpg",
        "cat/..",
        "a\u{1b}[2J/../x.jpg",
    ] {
        refuses(
            "x.tar",
            &gnu().file(name, b"x").finish(),
            &["no path below a directory, at"],
        );
        refuses(
            "x.zip",
            &zip(&[(name, b"x")], ZipOptions::default()),
            &["no path below a directory, at"],
        );
    }
    let twice = gnu().file("./cat//a.jpg", b"other").finish();
    refuses(
        "x.tar",
        &twice,
        &["cat/a.jpg: twice in the archive, with contents at 512 and at "],
    );
    let twice = zip(
        &[("cat/a.jpg", b"x"), ("cat/a.jpg", b"y")],
        ZipOptions::default(),
    );
    refuses("x.zip", &twice, &["cat/a.jpg: twice in the archive"]);
    let twice = gnu()
        .file("in.tar", &gnu().finish())
        .file("in.tar", &gnu().finish())
        .finish();
    refuses("x.tar", &twice, &["in.tar: twice in the archive, at "]);
    let both = gnu().file("cat/a.jpg/b.jpg", b"x").finish();
    refuses("x.tar", &both, &["cat/a.jpg: both a file and a directory"]);
    let deep = "a/".repeat(200) + "x.jpg";
    refuses(
        "x.tar",
        &gnu().file(&deep, b"x").finish(),
        &["no path below a directory"],
    );
    let long = "n".repeat(5000);
    refuses(
        "x.tar",
        &gnu().file(&long, b"x").finish(),
        &["a name of 5000 bytes"],
    );
}

#[test]
fn members_that_are_no_files_are_refused_by_name() {
    for (kind, words) in [
        (b'S', "b.jpg is sparse, at"),
        (b'3', "b.jpg is a device, at"),
        (b'6', "b.jpg is a pipe, at"),
        (b'Z', "b.jpg is of the unknown type `Z`, at"),
    ] {
        refuses(
            "x.tar",
            &gnu().member("b.jpg", "", kind, b"").finish(),
            &[words],
        );
    }
    let sparse = b"22 GNU.sparse.major=1\n";
    let mut tar = gnu();
    tar.raw("x", "", b'x', sparse.len() as u64, sparse)
        .file("b.jpg", b"x");
    refuses("x.tar", &tar.finish(), &["b.jpg is sparse"]);
    for (target, words) in [
        ("../../etc/passwd", "leads out of the archive"),
        ("/etc/passwd", "leads out of the archive"),
        ("nowhere.jpg", "no file of the archive"),
        ("b.jpg", "no file of the archive"),
        (".", "which is a directory"),
        ("in.tar", "which is an archive"),
    ] {
        let mut tar = gnu();
        tar.file("cat/in.tar", &gnu().finish())
            .link("cat/b.jpg", target, false);
        refuses("x.tar", &tar.finish(), &["cat/b.jpg -> ", words]);
    }
    // Links that lead to each other, and one that calls an archive what is in it.
    let circle = gnu()
        .link("cat/b.jpg", "c.jpg", false)
        .link("cat/c.jpg", "b.jpg", false)
        .finish();
    refuses(
        "x.tar",
        &circle,
        &["cat/b.jpg -> cat/c.jpg", "cat/c.jpg -> cat/b.jpg"],
    );
    let own = gnu().link("cat/x.tar", "cat/a.jpg", true).finish();
    refuses(
        "x.tar",
        &own,
        &["cat/x.tar: a link that cannot be followed"],
    );
}

#[test]
fn bombs_of_headers_and_archives_end_in_bounded_memory() {
    let big = vec![b'x'; 2 << 20];
    let mut tar = gnu();
    tar.raw("x", "", b'x', big.len() as u64, &big)
        .file("b.jpg", b"x");
    refuses(
        "x.tar",
        &tar.finish(),
        &["extended headers of more than 1 MiB for one member, at"],
    );
    let mut tar = gnu();
    for _ in 0..3000 {
        tar.raw("x", "", b'x', 12, b"12 mtime=13\n");
    }
    refuses(
        "x.tar",
        &tar.finish(),
        &["extended headers of more than 1 MiB"],
    );
    refuses(
        "x.tar",
        &gnu().raw("x", "", b'x', 9, b"9 path=x\n").finish(),
        &["belongs to nothing"],
    );
    refuses(
        "x.tar",
        &gnu()
            .raw("x", "", b'x', 12, b"99 mtime=13\n")
            .file("b.jpg", b"")
            .finish(),
        &["extended header"],
    );
    let global = gnu()
        .raw("x", "", b'g', 9, b"9 path=x\n")
        .file("b.jpg", b"")
        .finish();
    refuses("x.tar", &global, &["that is for all members"]);
    // Long paths of which each directory is another.
    let mut tar = Tar::new(Dialect::Gnu);
    for i in 0..3000 {
        let path = format!("{i}/{}x.jpg", format!("{}/", "d".repeat(30)).repeat(120));
        tar.file(&path, b"");
    }
    refuses(
        "x.tar.gz",
        &gzip(&tar.finish()),
        &["32 MiB of paths of directories"],
    );
    let mut bad = Tar::new(Dialect::V7);
    for _ in 0..20_000 {
        bad.bytes(&header(Dialect::V7, "../x", "", 0, 0));
    }
    refuses("x.tar", &bad.finish(), &["1001 problems"]);
    let mut inner = gnu().finish();
    for _ in 0..20 {
        inner = Tar::new(Dialect::Gnu).file("in.tar", &inner).finish();
    }
    refuses("x.tar", &inner, &["more than 8 archives in each other"]);
}

#[test]
fn compressed_tars_that_are_large_damaged_or_inside_of_archives_are_refused() {
    let packed = gzip(&gnu().finish());
    refuses(
        "x.tar.gz",
        &packed[..packed.len() - 20],
        &["cannot be unpacked"],
    );
    refuses("x.tar.gz", b"no gzip", &["cannot be unpacked"]);
    refuses("x.tar.zst", &packed, &["cannot be unpacked"]);
    refuses("x.tgz", &gzip(b"no tar"), &["no end marker"]);
    let inside = gnu().file("devkit.tar.gz", &packed).finish();
    refuses(
        "x.tar",
        &inside,
        &["devkit.tar.gz: a compressed archive inside of an archive"],
    );
    let options = ZipOptions {
        deflated: true,
        ..ZipOptions::default()
    };
    let inside = zip(&[("all.tar", &gnu().finish()[..])], options);
    refuses(
        "x.zip",
        &inside,
        &["all.tar: a compressed archive inside of an archive"],
    );
    let large = |archive: &Path| File::create(archive).unwrap().set_len(65 << 20).unwrap();
    refused("x.tar.gz", large).says(&["68157440 bytes", "unpack it to a plain `.tar`"]);
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    std::io::copy(
        &mut std::io::Read::take(std::io::repeat(0), 1 << 30),
        &mut encoder,
    )
    .unwrap();
    refuses(
        "x.tar.zst",
        &encoder.finish().unwrap(),
        &["unpacks to more than"],
    );
}

#[test]
fn a_zip_that_contradicts_itself_is_refused() {
    let content = picture("a");
    let good = zip(
        &[("cat/a.jpg", &content), ("cat/b.jpg", &content)],
        ZipOptions::default(),
    );
    let told = "the directory and the header before the content say different things, at 0";
    for (at, name) in [
        (8, "method"),
        (14, "crc"),
        (18, "packed"),
        (22, "size"),
        (26, "name length"),
        (32, "name"),
        (6, "flag"),
    ] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        refuses("x.zip", &bad, &[told, "cat/a.jpg"]);
        let _ = name;
    }
    let mut bad = good.clone();
    bad[0] = b'Q';
    refuses(
        "x.zip",
        &bad,
        &["there is no header where the directory says, at 0"],
    );
    refuses(
        "x.zip",
        &good[..good.len() - 30],
        &["no directory of a zip"],
    );
    refuses("x.zip", b"", &["no directory of a zip"]);
    // The second entry of the directory made to point at the first one's content.
    let directory = good
        .windows(4)
        .position(|four| four == b"PK\x01\x02")
        .unwrap();
    let second = directory + 46 + "cat/a.jpg".len();
    let mut overlaps = good.clone();
    overlaps[second + 42..second + 46].fill(0);
    overlaps[second + 46 + 4] = b'a';
    refuses(
        "x.zip",
        &overlaps,
        &["two members have the same bytes, at 0 and at 0"],
    );
    let mut far = good.clone();
    far[second + 42..second + 46].fill(0x7F);
    refuses("x.zip", &far, &["nothing is left of the archive"]);
    let mut many = good.clone();
    let end = many.len() - 22;
    many[end + 8] = 3;
    many[end + 10] = 3;
    refuses("x.zip", &many, &["x.zip: "]);
    let options = ZipOptions {
        encrypted: true,
        ..ZipOptions::default()
    };
    refuses(
        "x.zip",
        &zip(&[("cat/a.jpg", &content)], options),
        &["cat/a.jpg is encrypted"],
    );
    let mut other = good.clone();
    for at in [8, directory + 10, second + 10] {
        other[at] = 12;
    }
    other[30 + 9 + 9 + content.len() + 8] = 12;
    refuses("x.zip", &other, &["is packed by method 12"]);
}

#[test]
fn a_content_that_is_not_what_the_zip_says_is_damage_of_the_source() {
    let content = picture("a");
    for deflated in [false, true] {
        let options = ZipOptions {
            deflated,
            ..ZipOptions::default()
        };
        let good = zip(&[("cat/a.jpg", &content)], options);
        let mut bad = good.clone();
        bad[30 + 9 + 9 + 600] ^= 4;
        refuses("x.zip", &bad, &["cat/a.jpg, at 48 of x.zip: "]);
        // Both headers agree on another length than the content has.
        if deflated {
            let directory = good
                .windows(4)
                .position(|four| four == b"PK\x01\x02")
                .unwrap();
            for change in [-1_i32, 1] {
                let mut bad = good.clone();
                let length = (content.len() as i32 + change) as u32;
                bad[22..26].copy_from_slice(&length.to_le_bytes());
                bad[directory + 24..directory + 28].copy_from_slice(&length.to_le_bytes());
                refuses("x.zip", &bad, &["cat/a.jpg, at 48 of x.zip: "]);
            }
        }
    }
}
