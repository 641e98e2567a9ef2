//! Disks that containers share, mounts whose server goes away, and links that lead elsewhere all of a sudden.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::faults::{Fault, in_a_container, library};
use crate::support::*;

/// What Linux says when a mount's server is not to be reached, and what else is over later.
const OUTAGES: [(&str, i32); 21] = [
    ("ENOTCONN", 107),
    ("EHOSTUNREACH", 113),
    ("ENETUNREACH", 101),
    ("ECONNREFUSED", 111),
    ("ECONNRESET", 104),
    ("ESHUTDOWN", 108),
    ("ECONNABORTED", 103),
    ("EREMOTEIO", 121),
    ("ENODEV", 19),
    ("ETIME", 62),
    ("ETIMEDOUT", 110),
    ("ESTALE", 116),
    ("EHOSTDOWN", 112),
    ("ENETDOWN", 100),
    ("ENETRESET", 102),
    ("ENOLINK", 67),
    ("ECOMM", 70),
    ("EBUSY", 16),
    ("ENOMEM", 12),
    ("EAGAIN", 11),
    ("EMFILE", 24),
];

/// Names of unfinished files below a directory.
fn partial(root: &Path) -> Vec<String> {
    let paths = files(root).into_iter();
    let names = paths.map(|path| path.to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".tmp")).collect()
}

/// Starts each in a container of its own.
fn containers(commands: impl Iterator<Item = Command>) -> Option<Vec<Child>> {
    commands
        .map(|command| {
            let mut command = in_a_container(&command)?;
            command.stdin(Stdio::null());
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            Some(command.spawn().unwrap())
        })
        .collect()
}

#[test]
fn containers_with_equal_process_ids_do_not_get_into_each_others_way() {
    let data = Dataset::new().class("cat", 20).class("dog", 20);
    let flags = ["--shards", "8", "--index", "wids", "--summary"];
    let summary = data.place("summary.json");
    let args: Vec<&str> = flags.into_iter().chain(summary.to_str()).collect();
    let alone = data.convert(&args);
    for round in 0..3 {
        let path = data.fresh();
        // The same plan in each, so that all of them write all names.
        let same = (0..30).map(|_| data.command(&path, &args));
        let Some(running) = containers(same) else {
            return;
        };
        for child in running {
            finished(child.wait_with_output().unwrap()).exits(0);
        }
        let context = format!("round {round}");
        assert_eq!(partial(&path), [""; 0], "{context}");
        assert_eq!(digests(&path), alone.digests(), "{context}");
        // What all of them wrote at once beside it is what one wrote.
        let summary: serde_json::Value =
            serde_json::from_slice(&fs::read(&summary).unwrap()).unwrap();
        assert_eq!(summary["exit_code"], 0, "{context}");
    }
    let beside = fs::read_dir(data.place(".")).unwrap();
    let names = beside.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<_> = names.filter(|name| name.ends_with(".tmp")).collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn a_run_in_one_container_sweeps_what_died_in_another_and_nothing_that_lives() {
    if library().is_none() {
        return;
    }
    let data = Dataset::new().class("cat", 20);
    let alone = data.convert(&["--shards", "2"]);
    let path = data.fresh();
    let stands = |name: &str| {
        let (mark, mut command) = (data.place(name), data.command(&path, &["--shards", "2"]));
        let shell = format!(
            "touch {0}; while [ -e {0} ]; do sleep 0.01; done",
            mark.display()
        );
        Fault::at("rename", "data/").runs(&mut command, &shell);
        (mark, command)
    };
    let [(first, dies), (second, lives)] = ["dies", "lives"].map(stands);
    let Some(mut running) = containers([dies, lives].into_iter()) else {
        return;
    };
    let (lives, mut dies) = (running.pop().unwrap(), running.pop().unwrap());
    // Both stand still with a shard that has no name yet.
    while !(first.exists() && second.exists()) {
        assert!(dies.try_wait().unwrap().is_none(), "it ended");
        std::thread::yield_now();
    }
    let of_both = partial(&path);
    dies.kill().unwrap();
    dies.wait().unwrap();
    // Its shell goes with it, whenever the system comes to that: until then the lock is held.
    let swept = loop {
        let next = in_a_container(&data.command(&path, &["--shards", "2"]));
        run(&mut next.unwrap()).exits(0);
        let left = partial(&path);
        if left.len() < of_both.len() {
            break left;
        }
    };
    assert!(!swept.is_empty(), "what lives was swept: {of_both:?}");
    fs::remove_file(&second).unwrap();
    finished(lives.wait_with_output().unwrap()).exits(0);
    assert_eq!(digests(&path), alone.digests());
}

/// A run that meets an error at every step of this kind.
fn meets(command: &mut Command, fault: Fault<'_>, (name, errno): (&str, i32), what: &str) {
    fault.says(command, errno);
    let run = run(command);
    let told = format!(
        "{name} at {what}: exit {}: {}{}",
        run.code, run.out, run.err
    );
    assert_eq!(run.code, 75, "{told}");
    let remedy = match name {
        "EMFILE" => "raise the open-file limit",
        "ENOMEM" => "lower `--memory`",
        _ => "run again",
    };
    assert!(run.err.contains(remedy), "{told}");
    assert!(!run.err.contains("os error"), "{told}");
}

#[test]
fn a_mount_that_lost_its_server_is_an_outage_at_every_step_of_a_conversion() {
    if library().is_none() {
        return;
    }
    let data = Dataset::new().class("cat", 6).class("dog", 6);
    let steps = [
        ("list", "source", 0),
        // In the middle of a directory.
        ("list", "source", 4),
        ("look", "source", 0),
        ("look", "source", 5),
        ("open", "source", 0),
        ("open", "source", 7),
        ("read", "source", 3),
        ("look", "output", 0),
        ("mkdir", "output", 1),
        ("open", "output", 0),
        ("open", "output", 9),
        ("write", "output", 0),
        ("write", "data/", 0),
        ("fsync", "output", 0),
        ("fsync", "data/", 0),
        ("rename", "output", 0),
        ("rename", "manifest.json", 0),
        ("link", "output", 0),
        ("link", "snapshots", 0),
    ];
    let path = data.fresh();
    for (turn, (step, place, after)) in steps.into_iter().enumerate() {
        for (number, outage) in OUTAGES.into_iter().enumerate() {
            // All of them where a source is read and where a shard is written; elsewhere they take turns.
            let all = matches!((step, place), ("read", "source") | ("write", "data/"));
            if !all && !(turn + number).is_multiple_of(7) {
                continue;
            }
            let mut command = data.command(&path, &["--shards", "2"]);
            command.env_remove("SHARDPACK_NO_FSYNC");
            let fault = Fault::at(step, place).after(after);
            meets(
                &mut command,
                fault,
                outage,
                &format!("{step} {place} {after}"),
            );
            assert!(!path.join("manifest.json").exists());
            if path.exists() {
                data.convert_to(&path, &["--shards", "2"]).exits(0);
                fs::remove_dir_all(&path).unwrap();
            }
        }
    }
}

#[test]
fn a_mount_that_lost_its_server_is_an_outage_of_every_verb() {
    if library().is_none() {
        return;
    }
    let data = Dataset::new().class("cat", 6).class("dog", 6);
    let labels = data.place("labels.csv");
    fs::write(&labels, "path,label\nx.jpg,0\n").unwrap();
    let output = data.convert(&["--shards", "2", "--index", "wids"]);
    let before = output.digests();
    let source = data.source();
    let [source, out, labels] = [&source, &output.path, &labels].map(|path| path.to_str().unwrap());
    let fresh = data.fresh();
    let fresh = fresh.to_str().unwrap();
    let shard = "data/";
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)]);
    let cases: &[Case<'_>] = &[
        (
            &["verify", out, "--level", "data"],
            &[
                ("open", "manifest.json"),
                ("read", "manifest.json"),
                ("open", "index/"),
                ("read", "index/"),
                ("open", shard),
                ("read", shard),
            ],
        ),
        (
            &["verify", out, "--level", "list"],
            &[("list", shard), ("look", shard)],
        ),
        (
            &["verify", out, "--level", "head"],
            &[("open", shard), ("read", shard)],
        ),
        (
            &["verify", out, "--level", "source", "--source", source],
            &[("open", "source/"), ("read", "source/"), ("look", "source")],
        ),
        (
            &["inspect", out],
            &[("open", "manifest.json"), ("read", "manifest.json")],
        ),
        (&["inspect", out, "cat/0001"], &[("open", "index/")]),
        (
            &["cat", out, "cat/0001"],
            &[("open", shard), ("read", shard), ("read", "index/")],
        ),
        (
            &["repair", out, "--source", source],
            &[("open", "manifest.json"), ("read", shard), ("list", out)],
        ),
        (
            &["gc", out, "--older-than", "0s"],
            &[
                ("list", shard),
                ("list", "_shardpack"),
                ("read", "manifest.json"),
            ],
        ),
        (
            &["index", out, "--index", "wids,dali"],
            &[("open", "index/"), ("write", "snapshots")],
        ),
        (&["publish", out], &[("read", "_shardpack")]),
        (&["report", out, "--output", "-"], &[("read", "index/")]),
        (
            &["plan", source, fresh],
            &[("list", "source"), ("mkdir", fresh)],
        ),
        (
            &["plan", source, fresh, "--labels", labels],
            &[("open", labels), ("read", labels)],
        ),
        (
            &["plan", source, fresh, "--class-names", labels],
            &[("read", labels)],
        ),
    ];
    let mut turn = 0;
    for (args, faults) in cases {
        for (step, place) in *faults {
            for _ in 0..4 {
                turn += 1;
                let outage = OUTAGES[turn * 5 % OUTAGES.len()];
                let what = format!("{step} {place} of {args:?}");
                meets(&mut shardpack(args), Fault::at(step, place), outage, &what);
                let mut now = output.digests();
                // What is made anew from what is there.
                now.retain(|name, _| before.contains_key(name));
                assert_eq!(now, before, "{what}");
            }
        }
    }
}

#[test]
fn a_link_to_the_destination_that_is_turned_during_a_run_changes_nothing() {
    if library().is_none() {
        return;
    }
    let data = Dataset::new().class("cat", 6).class("dog", 6);
    let alone = data.convert(&["--shards", "2", "--index", "wids"]);
    let (link, one, two) = (data.place("link"), data.place("one"), data.place("two"));
    let marked = data.place("turned");
    let turn = format!(
        "ln -s {} {}.new && mv -T {1}.new {1} && touch {}",
        two.display(),
        link.display(),
        marked.display()
    );
    let mut turned = 0;
    for step in ["mkdir", "open", "write", "rename", "link", "remove"] {
        for after in 0.. {
            for place in [&one, &two] {
                fs::create_dir(place).unwrap();
            }
            symlink(&one, &link).unwrap();
            // Below the link, not beside it: the paths of the steps are those that the program uses.
            let mut command = data.command(&link, &["--shards", "2", "--index", "wids"]);
            Fault::at(step, ".").after(after).runs(&mut command, &turn);
            run(&mut command).exits(0);
            let happened = marked.exists();
            let what = format!("before {step} {after}");
            if happened {
                assert_eq!(
                    digests(&two).len() * digests(&one).len(),
                    0,
                    "{what}: in both"
                );
            }
            let whole = match digests(&two).is_empty() {
                true => digests(&one),
                false => digests(&two),
            };
            assert_eq!(whole, alone.digests(), "{what}");
            for place in [&one, &two] {
                fs::remove_dir_all(place).unwrap();
            }
            fs::remove_file(&link).unwrap();
            if !happened {
                break;
            }
            turned += 1;
            fs::remove_file(&marked).unwrap();
        }
    }
    assert!(turned > 40, "only {turned} steps");
}
