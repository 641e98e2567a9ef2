//! Datasets and sources that were made to harm: no verb panics, hangs, takes more than a bounded memory, or reads or writes anything outside.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::stored_plan::StoredPlan;
use crate::support::*;
use serde_json::{Value, json};

/// Most memory that a run may take for a dataset of less than a megabyte.
const MOST_BYTES: u64 = 256 << 20;
/// Longest that one may take, on a busy machine.
const LONGEST: Duration = Duration::from_secs(20);
/// What the exit codes of `docs/exit-codes.md` are, but those of signals.
const CODES: [i32; 7] = [0, 1, 2, 3, 4, 10, 75];
/// What lies outside and no run may tell.
const SECRET: &str = "canary-5e1f";

/// Names that lead elsewhere, or nowhere.
fn names() -> Vec<String> {
    [
        "../outside/secret.txt",
        "data/../../outside/secret.txt",
        "data/..",
        "..",
        ".",
        "",
        "data//x.tar",
        "/etc/hostname",
        "s3://bucket/x.tar",
        "file:///etc/hostname",
        "https://localhost:1/x.tar",
        "pipe:cat ../outside/secret.txt",
        "| cat ../outside/secret.txt",
        "data/\0.tar",
        "data/\n\u{1b}[2J\r.tar",
        "data/\u{202e}rat.tar",
        "manifest.json",
        "_shardpack/claims/00000001.json",
        "data",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([
        "a".repeat(300),
        "a/".repeat(2500) + "x",
        "é".repeat(100_000),
    ])
    .collect()
}

/// A dataset that every verb is let loose on.
struct Victim {
    data: Dataset,
    output: Output,
    outside: Digests,
    worst: u64,
    cases: usize,
}

impl Victim {
    fn new(flags: &[&str]) -> Self {
        let data = Dataset::new().class("cat", 3).class("dog", 3);
        fs::create_dir(data.place("outside")).unwrap();
        fs::write(data.place("outside/secret.txt"), SECRET).unwrap();
        let path = data.fresh();
        let run_it = run(shardpack(&["plan"])
            .arg(data.source())
            .arg(&path)
            .args(["--shards", "2"])
            .args(flags));
        run_it.exits(0);
        let run = run(shardpack(&["pack"]).arg(&path));
        run.exits(0);
        self::run(shardpack(&["publish"]).arg(&path)).exits(0);
        let outside = Self::outside(&data);
        Self {
            data,
            output: Output { path, run },
            outside,
            worst: 0,
            cases: 0,
        }
    }

    /// Everything beside the destination.
    fn outside(data: &Dataset) -> Digests {
        let mut all = digests(&data.place("outside"));
        all.extend(digests(&data.source()));
        all
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.output.path.join(name)
    }

    fn tries(&mut self, what: &str, command: &[&str]) -> i32 {
        let summary = self.data.place("summary.json");
        let _ = fs::remove_file(&summary);
        let run = within(LONGEST, shardpack(command).arg("--summary").arg(&summary));
        let told = format!("{what}: {command:?}\n{}\n{}", run.out, run.err);
        let told: String = told.chars().take(3000).collect();
        assert!(CODES.contains(&run.code), "exit code {}: {told}", run.code);
        assert!(!run.err.contains("panicked"), "{told}");
        for text in [&run.out, &run.err] {
            assert!(!text.contains(SECRET), "{told}");
            let escapes = text.chars().any(|c| c.is_control() && !"\n\t".contains(c));
            // What `cat` writes is an image.
            assert!(!escapes || command[0] == "cat", "{told}");
        }
        if let Ok(text) = fs::read(&summary) {
            let summary: Value = serde_json::from_slice(&text).unwrap();
            let peak = summary["peak_rss_bytes"].as_u64().unwrap_or(0);
            assert!(peak <= MOST_BYTES, "{peak} bytes: {told}");
            self.worst = self.worst.max(peak);
        }
        run.code
    }

    /// Verbs, each on the dataset as it is now: `verify` and by turns a quarter of the others, or with `SHARDPACK_HOSTILE=1` all of them.
    fn survives(&mut self, what: &str) -> Vec<i32> {
        let kept = self.data.fresh();
        let restore = |victim: &Self| {
            fs::remove_dir_all(&victim.output.path).unwrap();
            copy_all(&kept, &victim.output.path);
        };
        copy_all(&self.output.path, &kept);
        let out = self.output.path.to_string_lossy().into_owned();
        let out = out.as_str();
        let source = self.data.source().to_string_lossy().into_owned();
        let source = source.as_str();
        let commands: [&[&str]; 16] = [
            &["verify", out],
            &["verify", out, "--level", "list"],
            &["verify", out, "--level", "head"],
            &["verify", out, "--level", "source", "--source", source],
            &["inspect", out],
            &["inspect", out, "cat/0001"],
            &["cat", out, "cat/0001"],
            &["cat", out, "cat/0001", "--whole"],
            &["publish", out],
            &["pack", out, "--source", source],
            &["index", out, "--index", "wids"],
            &["gc", out, "--older-than", "0s", "--keep", "1"],
            &["repair", out, "--source", source],
            &["convert", source, out, "--shards", "2"],
            &["convert", source, out, "--shards", "2", "--full"],
            &[
                "plan",
                source,
                out,
                "--shards",
                "2",
                "--on-change",
                "rebuild",
            ],
        ];
        let mut codes = Vec::new();
        self.cases += 1;
        for (number, command) in commands.into_iter().enumerate() {
            let turn = (number + self.cases).is_multiple_of(4);
            if number > 0 && !turn && std::env::var_os("SHARDPACK_HOSTILE").is_none() {
                continue;
            }
            codes.push(self.tries(what, command));
            assert_eq!(
                Self::outside(&self.data),
                self.outside,
                "{what}: {command:?}"
            );
            restore(self);
        }
        fs::remove_dir_all(&kept).unwrap();
        codes
    }

    /// Changes the manifest and its snapshot alike, so that nothing tells by comparing them.
    fn with_manifest(&mut self, what: &str, change: impl FnOnce(&mut Value)) -> Vec<i32> {
        let before = fs::read(self.path("manifest.json")).unwrap();
        let mut manifest: Value = serde_json::from_slice(&before).unwrap();
        change(&mut manifest);
        let codes = self.with_manifest_text(what, &serde_json::to_vec_pretty(&manifest).unwrap());
        for name in ["manifest.json", "_shardpack/snapshots/00000001.json"] {
            fs::write(self.path(name), &before).unwrap();
        }
        codes
    }

    fn with_manifest_text(&mut self, what: &str, text: &[u8]) -> Vec<i32> {
        for name in ["manifest.json", "_shardpack/snapshots/00000001.json"] {
            fs::write(self.path(name), text).unwrap();
        }
        self.survives(what)
    }

    fn with_file(&mut self, what: &str, name: &str, content: &[u8]) -> Vec<i32> {
        let before = fs::read(self.path(name)).unwrap();
        fs::write(self.path(name), content).unwrap();
        let codes = self.survives(what);
        fs::write(self.path(name), before).unwrap();
        codes
    }

    /// Another plan under a sound id, claimed.
    fn with_plan(&mut self, what: &str, change: impl FnOnce(&mut StoredPlan)) {
        self.with_plan_text(what, change, |text| text);
    }

    /// The same with a text that no plan of ours has.
    fn with_plan_text(
        &mut self,
        what: &str,
        change: impl FnOnce(&mut StoredPlan),
        edit: impl FnOnce(String) -> String,
    ) {
        let before = self.data.fresh();
        copy_all(&self.output.path, &before);
        let mut stored = StoredPlan::of(&self.output.path);
        change(&mut stored);
        stored.claim(edit);
        for published in [true, false] {
            if !published {
                fs::remove_file(self.path("manifest.json")).unwrap();
                fs::remove_file(self.path("_shardpack/snapshots/00000001.json")).unwrap();
            }
            self.survives(&format!("{what}, published: {published}"));
        }
        fs::remove_dir_all(&self.output.path).unwrap();
        fs::rename(before, &self.output.path).unwrap();
    }

    fn ends(self) {
        println!("at most {:.1} MiB", self.worst as f64 / (1 << 20) as f64);
    }
}

/// Runs to the end, which has to come within a time.
fn within(longest: Duration, command: &mut Command) -> Run {
    let mut limited = Command::new("timeout");
    limited.args(["-s", "KILL", &longest.as_secs().to_string()]);
    limited.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    run(limited.stdin(Stdio::null()))
}

/// A copy with times and links as they are.
fn copy_all(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.unwrap().success());
}

/// Zeros without end, packed.
fn bomb(gzip: bool, bytes: u64) -> Vec<u8> {
    match gzip {
        false => {
            let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
            std::io::copy(
                &mut std::io::Read::take(std::io::repeat(0), bytes),
                &mut encoder,
            )
            .unwrap();
            encoder.finish().unwrap()
        }
        true => {
            let mut command = Command::new("sh");
            command
                .arg("-c")
                .arg(format!("head -c {bytes} /dev/zero | gzip -9"));
            let output = command.output().unwrap();
            assert!(output.status.success());
            output.stdout
        }
    }
}

#[test]
fn names_in_a_manifest_lead_nowhere_else() {
    let mut victim = Victim::new(&["--index", "wids"]);
    for name in names() {
        let what: String = name.chars().take(40).collect();
        for place in ["name", "index"] {
            let codes = victim.with_manifest(&format!("{place} {what:?}"), |manifest| {
                manifest["splits"][0]["shards"][0][place] = json!(name);
            });
            assert_ne!(codes[0], 0, "{place} {what:?}");
        }
    }
    for name in names().into_iter().take(4) {
        victim.with_manifest("a reader index", |manifest| {
            manifest["indexes"][0]["name"] = json!(name);
        });
        victim.with_manifest("a split", |manifest| {
            manifest["splits"][0]["name"] = json!(name);
        });
        victim.with_manifest("the name", |manifest| manifest["name"] = json!(name));
        victim.with_manifest("a plan", |manifest| manifest["plan"] = json!(name));
    }
    victim.ends();
}

#[test]
fn numbers_in_a_manifest_take_no_memory() {
    let mut victim = Victim::new(&["--index", "wids"]);
    let numbers = [0, 1_000_000_000_000_000_000, u64::MAX - 1, u64::MAX];
    for number in numbers {
        for place in ["samples", "bytes", "unpacked_bytes", "index_bytes"] {
            victim.with_manifest(&format!("{place} {number}"), |manifest| {
                manifest["splits"][0]["shards"][0][place] = json!(number);
            });
        }
        for place in ["samples", "bytes", "snapshot", "version"] {
            victim.with_manifest(&format!("{place} {number}"), |manifest| {
                manifest[place] = json!(number);
            });
        }
        victim.with_manifest(&format!("all {number}"), |manifest| {
            for place in ["samples", "bytes"] {
                manifest[place] = json!(number);
                manifest["splits"][0][place] = json!(number);
                for shard in 0..2 {
                    manifest["splits"][0]["shards"][shard][place] = json!(number);
                }
            }
        });
        victim.with_manifest(&format!("cut {number}"), |manifest| {
            manifest["recipe"]["cut"] = json!({"shard-bytes": number});
        });
    }
    victim.ends();
}

#[test]
fn json_without_an_end_is_damage() {
    let mut victim = Victim::new(&[]);
    let deep = "[".repeat(500_000);
    let codes = victim.with_manifest_text("deep", deep.as_bytes());
    assert_eq!(codes[0], 4);
    victim.with_manifest_text("deep objects", "{\"a\":".repeat(150_000).as_bytes());
    victim.with_manifest_text("nothing", b"");
    victim.with_manifest_text("zeros", &[0; 100_000]);
    let plan = files(&victim.path("_shardpack/plan"))
        .into_iter()
        .find(|file| file.ends_with("plan.json"))
        .unwrap();
    let plan = plan
        .strip_prefix(&victim.output.path)
        .unwrap()
        .to_string_lossy()
        .into_owned();
    let mut victim = Victim::new(&[]);
    victim.with_file("a deep plan", &plan, deep.as_bytes());
    victim.with_file(
        "a deep claim",
        "_shardpack/claims/00000001.json",
        deep.as_bytes(),
    );
    victim.ends();
}

#[test]
fn a_plan_that_was_made_to_harm_leads_nowhere() {
    let mut victim = Victim::new(&[]);
    for name in names().into_iter().take(19) {
        let what = format!("shard {name:?}");
        victim.with_plan(&what, |stored| {
            stored.root.set("plan.shards.0.name", name.as_str());
        });
        victim.with_plan(&format!("split {name:?}"), |stored| {
            stored.root.set("plan.shards.0.split", name.as_str());
        });
    }
    for name in ["../outside", "/etc", "a/../..", "\0"] {
        victim.with_plan(&format!("split {name:?}"), |stored| {
            stored.root.set("plan.splits.0", name);
            for shard in stored.root.at("plan.shards").items() {
                shard.set("split", name);
            }
        });
    }
    for number in [0, 1 << 40, 1_000_000_000_000_000_000, u64::MAX] {
        for place in [
            "plan.shards.0.samples",
            "plan.shards.0.bytes",
            "plan.shards.0.source_bytes",
            "plan.shards.0.listing_bytes",
            "frames.0.1",
        ] {
            victim.with_plan(&format!("{place} {number}"), |stored| {
                stored.root.set(place, number);
            });
        }
        let what = |place| format!("{place} {number}");
        victim.with_plan(&what("frame"), |stored| {
            stored.root.set("frames.0", vec![number, 100]);
        });
        victim.with_plan(&what("generation"), |stored| {
            stored.set("generation", number)
        });
        victim.with_plan(&what("stale"), |stored| stored.set("stale", number));
        victim.with_plan(&what("number"), |stored| {
            stored.set("numbers", json!({"train": number}));
        });
        victim.with_plan(&what("shard"), |stored| {
            let name = format!("data/train-{number}.tar");
            stored.root.set("plan.shards.0.name", name);
        });
    }
    victim.ends();
}

#[test]
fn what_unpacks_without_end_is_damage() {
    let bombs = [bomb(false, 1 << 30), bomb(true, 512 << 20)];
    for (flags, gzip) in [
        (&["--compress", "zstd"][..], false),
        (&["--compress", "zstd", "--zstd-seekable"], false),
        (&["--compress", "gzip"], true),
        (&["--format", "tfrecord", "--compress", "gzip"], true),
        (&["--format", "tfrecord", "--compress", "zstd"], false),
    ] {
        let mut victim = Victim::new(flags);
        let shard = victim.output.shards()[0].clone();
        let shard = shard.strip_prefix(&victim.output.path).unwrap();
        let shard = shard.to_string_lossy().into_owned();
        let bomb = &bombs[usize::from(gzip)];
        let codes = victim.with_file("a bomb for a shard", &shard, bomb);
        assert_eq!(codes[0], 4, "{flags:?}");
        // The manifest agrees with it as far as it goes.
        victim.with_file(
            "an index for a shard",
            &shard,
            &fs::read(victim.path("index/train-00000.parquet")).unwrap(),
        );
        victim.with_file("a bomb for an index", "index/train-00000.parquet", bomb);
        victim.ends();
    }
    let mut victim = Victim::new(&[]);
    let plans = files(&victim.path("_shardpack/plan"));
    let samples = plans
        .iter()
        .find(|file| file.ends_with("samples.jsonl.zst"))
        .unwrap();
    let length = bombs[0].len() as u64;
    fs::write(samples, &bombs[0]).unwrap();
    victim.survives("a bomb for the samples");
    victim.with_plan("a bomb for the samples that the plan knows", |stored| {
        stored.root.set("frames.0", vec![0, length]);
        stored.root.set("plan.shards.0.listing_bytes", 1 << 30);
    });
    victim.ends();
}

#[test]
fn shards_of_others_that_were_made_to_harm_are_damage() {
    let mut tar = tar::Header::new_ustar();
    tar.set_path("cat/0.jpg").unwrap();
    tar.set_size(10);
    tar.set_cksum();
    let with_size = |size: u64| {
        let mut header = tar.clone();
        header.set_size(size);
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    let with_name = |name: &[u8]| {
        let mut header = tar.clone();
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.as_old_mut().name[name.len()] = 0;
        header.set_cksum();
        let mut shard = header.as_bytes().to_vec();
        shard.resize(2048, 0);
        shard
    };
    let mut long = tar::Header::new_gnu();
    long.set_entry_type(tar::EntryType::GNULongName);
    long.set_size(u64::MAX / 2);
    long.set_cksum();
    let mut record = (u64::MAX - 8).to_le_bytes().to_vec();
    record.extend([0; 100]);
    let shards: Vec<(&str, Vec<u8>)> = vec![
        ("train-0.tar", with_size(u64::MAX)),
        ("train-0.tar", with_size(1 << 62)),
        ("train-0.tar", with_size(8_589_934_591)),
        ("train-0.tar", with_name(b"../../outside/secret.jpg")),
        ("train-0.tar", with_name(b"/etc/hostname.jpg")),
        ("train-0.tar", with_name(b"\x1b[2J\n.jpg")),
        ("train-0.tar", long.as_bytes().to_vec()),
        ("train-0.tar", vec![0xFF; 100_000]),
        ("train-0.tar.zst", bomb(false, 1 << 30)),
        ("train-0.tar.gz", bomb(true, 256 << 20)),
        ("train-0.tfrecord", record),
        ("train-0.tfrecord", vec![0xFF; 100_000]),
        ("train-0.tfrecord.gz", bomb(true, 256 << 20)),
        ("train-0.parquet", b"PAR1\xff\xff\xff\x7fPAR1".to_vec()),
    ];
    let mut victim = Victim::new(&[]);
    for (name, content) in shards {
        let dir = victim.data.fresh();
        write(&dir.join(name), &content);
        let out = dir.to_string_lossy().into_owned();
        let commands: [&[&str]; 5] = [
            &["index", &out, "--index", "wids"],
            &["verify", &out],
            &["inspect", &out],
            &["repair", &out],
            &["gc", &out],
        ];
        for command in commands {
            victim.tries(name, command);
        }
        assert_eq!(fs::read(dir.join(name)).unwrap(), content);
        assert_eq!(Victim::outside(&victim.data), victim.outside);
    }
    victim.ends();
}

#[test]
fn pipes_sockets_devices_and_circles_in_a_source_are_named() {
    let victim = Victim::new(&[]);
    let source = victim.data.source();
    let made = Command::new("mkfifo")
        .arg(source.join("cat/pipe.jpg"))
        .status();
    assert!(made.unwrap().success());
    let _socket = UnixListener::bind(source.join("cat/socket.jpg")).unwrap();
    let data = victim
        .data
        .link("cat/device.jpg", "/dev/zero")
        .link("cat/nowhere.jpg", "nowhere")
        .link("cat/itself.jpg", "itself.jpg")
        .link("cat/up", "..")
        .link("dog/down", "../dog");
    let (source, out) = (data.source(), data.fresh());
    let out = out.to_string_lossy().into_owned();
    let source = source.to_string_lossy().into_owned();
    for command in [
        &["convert", &source, &out][..],
        &["plan", &source, &out],
        &["convert", &source, &out, "--dry-run"],
        &["convert", &source, &out, "--on-error", "skip"],
    ] {
        let begun = Instant::now();
        run(&mut shardpack(command)).exits(3).says(&[
            "cat/pipe.jpg is a pipe",
            "cat/socket.jpg is a socket",
            "cat/device.jpg is a device",
            "cat/nowhere.jpg",
            "cat/itself.jpg",
            "cat/up -> ./",
            "dog/down -> dog/",
        ]);
        assert!(begun.elapsed() < LONGEST && !Path::new(&out).exists());
    }
}

#[test]
fn links_and_pipes_in_a_destination_do_no_harm() {
    let mut victim = Victim::new(&[]);
    let shard = victim.path("data/train-00000.tar");
    fs::remove_file(&shard).unwrap();
    std::os::unix::fs::symlink("../../outside/secret.txt", &shard).unwrap();
    victim.survives("a link for a shard");
    fs::remove_file(&shard).unwrap();
    std::os::unix::fs::symlink("train-00000.tar", &shard).unwrap();
    victim.survives("a link to itself for a shard");
    fs::remove_file(&shard).unwrap();
    fs::create_dir(&shard).unwrap();
    victim.survives("a directory for a shard");
    let mut file = fs::File::create(victim.path("index/train-00001.parquet")).unwrap();
    file.write_all(b"PAR1").unwrap();
    file.set_len(1 << 40).unwrap();
    victim.survives("an index with a hole of a terabyte");
    victim.ends();
}

/// Changes the samples that a stored plan lists for its first shard, with all digests, ids and claims made right.
fn with_samples(victim: &mut Victim, change: &dyn Fn(&mut Value)) -> std::path::PathBuf {
    use sha2::{Digest, Sha256};
    let mut stored = StoredPlan::of(&victim.output.path);
    let samples = stored.path.with_file_name("samples.jsonl.zst");
    let packed = fs::read(&samples).unwrap();
    let frames = serde_json::to_value(stored.root.at("frames")).unwrap();
    let mut frames: Vec<[u64; 2]> = serde_json::from_value(frames).unwrap();
    let [offset, length] = frames[0].map(|number| number as usize);
    let lines = zstd::decode_all(&packed[offset..offset + length]).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let mut edited = String::new();
    for (number, line) in lines.lines().enumerate() {
        // In the order that their members have.
        let mut sample: Value = serde_json::from_str(line).unwrap();
        if number == 0 {
            change(&mut sample);
        }
        edited.push_str(&format!("{sample}\n"));
    }
    let digest = Sha256::digest(&edited);
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    stored.root.set("plan.shards.0.listing", digest);
    stored.root.set("plan.shards.0.listing_bytes", edited.len());
    let frame = zstd::encode_all(edited.as_bytes(), 1).unwrap();
    let grown = frame.len() as i64 - length as i64;
    fs::write(&samples, [&frame[..], &packed[offset + length..]].concat()).unwrap();
    frames[0] = [0, frame.len() as u64];
    for frame in &mut frames[1..] {
        frame[0] = frame[0].checked_add_signed(grown).unwrap();
    }
    stored.root.set("frames", json!(frames));
    stored.claim(|text| text)
}

#[test]
fn a_stored_plan_reads_nothing_outside_of_its_source() {
    let secret = picture("secret");
    let evil: [(&str, Value); 7] = [
        ("path", json!("../outside/secret.jpg")),
        ("path", json!("cat/../../outside/secret.jpg")),
        ("path", json!("OUTSIDE/secret.jpg")),
        (
            "path",
            json!({"hex": "2e2e2f6f7574736964652f7365637265742e6a7067"}),
        ),
        ("key", json!("../../outside/secret")),
        ("key", json!("/etc/secret")),
        ("name", json!("../jpg")),
    ];
    for (member, value) in evil {
        let data = Dataset::new().class("cat", 3).class("dog", 3);
        let outside = data.place("outside");
        write(&outside.join("secret.jpg"), &secret);
        let path = data.fresh();
        let mut plan = shardpack(&["plan"]);
        run(plan.arg(data.source()).arg(&path).args(["--shards", "2"])).exits(0);
        let mut victim = Victim {
            outside: Victim::outside(&data),
            output: Output {
                run: data.convert_to(&path, &["--dry-run", "--shards", "2"]),
                path,
            },
            data,
            worst: 0,
            cases: 0,
        };
        let value: Value = match value.as_str() {
            Some(text) => json!(text.replace("OUTSIDE", outside.to_str().unwrap())),
            None => value,
        };
        // As it is, but for the order of its members: that is no harm.
        with_samples(&mut victim, &|_| {});
        let shard = victim.path("data/train-00000.tar");
        let packed = run(shardpack(&["pack"]).arg(&victim.output.path));
        packed.exits(0);
        fs::remove_dir_all(victim.path("data")).unwrap();
        fs::remove_dir_all(victim.path("index")).unwrap();
        with_samples(&mut victim, &|sample| match member {
            "key" => sample["key"] = value.clone(),
            _ => {
                let field = &mut sample["fields"][0];
                field[member] = value.clone();
                if member == "path" {
                    field["size"] = json!(secret.len());
                }
            }
        });
        for flags in [&[][..], &["--on-error", "skip"]] {
            let run = run(shardpack(&["pack"]).arg(&victim.output.path).args(flags));
            run.exits(4)
                .says(&["the plan's list of samples cannot be read", "is no "]);
            assert!(!shard.exists(), "{member} {value}");
        }
        let codes = victim.survives(&format!("{member} {value}"));
        assert!(!codes.contains(&0) || !shard.exists());
    }
}
