//! Which file of `src/` may import what, read from the files themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::support::files;

/// The layers of `src/lib.rs` from top to bottom; a module may import from its own and those below.
const LAYERS: [(&str, &[&str]); 6] = [
    ("run", &["main", "lib", "run"]),
    ("command", &["command"]),
    ("settings", &["settings", "cli"]),
    (
        "stages",
        &[
            "pipeline", "publish", "beside", "growth", "gone", "verify", "repair", "relist",
            "resume", "gc", "foreign", "survey",
        ],
    ),
    (
        "parts",
        &[
            "store",
            "format",
            "compress",
            "index",
            "lookahead",
            "reactor",
            "budget",
            "progress",
            "signal",
            "file",
            "scan",
        ],
    ),
    (
        "values",
        &[
            "plan",
            "manifest",
            "record",
            "sample",
            "error",
            "policy",
            "labels",
            "listing",
            "buffer",
            "probe",
            "checksum",
            "card",
            "sync",
            "unique",
            "units",
            "history",
            "report",
            "recipe",
            "scheduler",
            "version",
            "offenders",
            "name",
        ],
    ),
];

/// Imports that go upwards, each with its reason.
const UPWARDS: [(&str, &str, &str); 3] = [
    (
        "plan",
        "format",
        "the exact size of a sample is the layout's to say",
    ),
    (
        "plan",
        "scan",
        "a draft is a plan whose samples are still in the scan's compact form",
    ),
    (
        "manifest",
        "store",
        "a manifest is read from where it lies, with its names checked",
    ),
];

/// Libraries that are seen in one file only.
const LIBRARIES: [(&str, &[&str]); 23] = [
    ("clap", &["cli.rs"]),
    ("indicatif", &["progress.rs"]),
    ("signal_hook", &["signal.rs"]),
    // In `format/mod.rs` it is the name of our own module.
    (
        "parquet",
        &["record.rs", "format/parquet.rs", "format/mod.rs"],
    ),
    ("rusqlite", &["index/energon.rs"]),
    ("prost", &["format/tfrecord.rs", "format/parquet.rs"]),
    ("crc_fast", &["format/tfrecord.rs"]),
    ("flate2", &["compress.rs"]),
    ("image", &["probe.rs"]),
    ("csv", &["labels.rs"]),
    ("getrandom", &["unique.rs"]),
    ("time", &["settings.rs"]),
    (
        "aws_sdk_s3",
        &[
            "store/s3/mod.rs",
            "store/s3/client.rs",
            "store/s3/connection.rs",
            "store/s3/tls.rs",
            "store/s3/list.rs",
            "store/s3/read.rs",
            "store/s3/trouble.rs",
            "store/s3/watch.rs",
            "store/s3/write.rs",
        ],
    ),
    (
        "aws_config",
        &["store/s3/client.rs", "store/s3/credentials.rs"],
    ),
    ("aws_credential_types", &["store/s3/credentials.rs"]),
    (
        "aws_types",
        &["store/s3/client.rs", "store/s3/credentials.rs"],
    ),
    (
        "aws_smithy_http_client",
        &["store/s3/proxy.rs", "store/s3/tls.rs"],
    ),
    ("http", &["store/s3/client.rs", "store/s3/proxy.rs"]),
    ("hyper_util", &["store/s3/proxy.rs"]),
    ("rustls", &["store/s3/tls.rs"]),
    ("aws_smithy_runtime_api", &["store/s3/watch.rs"]),
    ("http_body", &["store/s3/watch.rs"]),
    (
        "tokio",
        &[
            "sync.rs",
            "store/s3/connection.rs",
            "store/s3/credentials.rs",
            "store/s3/link.rs",
            "store/s3/list.rs",
            "store/s3/pace.rs",
            "store/s3/read.rs",
            "store/s3/tls.rs",
            "store/s3/watch.rs",
            "store/s3/write.rs",
        ],
    ),
];

/// Files that may touch the file system, each with its reason.
const FILE_SYSTEM: [(&str, &str); 6] = [
    ("store/local.rs", "the file system as source and sink"),
    ("settings.rs", "files named by flags that are read"),
    ("file.rs", "files named by flags that are written"),
    ("command/summary.rs", "the kernel's account of this process"),
    ("budget.rs", "how much memory there is"),
    (
        "store/s3/tls.rs",
        "certificates of authorities that the environment names",
    ),
];

/// The Rust files of `src/`; a page's style lies beside its module.
fn modules(root: &Path) -> Vec<std::path::PathBuf> {
    let mut found = files(root);
    found.retain(|path| path.extension().is_some_and(|e| e == "rs"));
    found
}

/// The code of each file of `src/` without its tests and comments.
fn sources() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let code = |path: std::path::PathBuf| {
        let name = path
            .strip_prefix(&root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
        let lines = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        (name, lines.collect::<Vec<_>>().join("\n"))
    };
    modules(&root).into_iter().map(code).collect()
}

/// The module at the top that a file belongs to.
fn module(file: &str) -> &str {
    file.split('/').next().unwrap().trim_end_matches(".rs")
}

/// The modules of this crate that some code names, in `use` lines or by path.
fn imports(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in code.split("crate::").skip(1) {
        // `use crate::{a, b::c}` or `crate::a::b`.
        let names = match part.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap(),
            None => part,
        };
        let many = part.starts_with('{');
        for name in names.split(if many { ',' } else { '\n' }) {
            let name: String = name
                .trim()
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect();
            found.insert(name);
            if !many {
                break;
            }
        }
    }
    found
}

fn layer(module: &str) -> usize {
    LAYERS
        .iter()
        .position(|(_, modules)| modules.contains(&module))
        .unwrap_or_else(|| panic!("`{module}` is in no layer: add it to this test and to lib.rs"))
}

#[test]
fn imports_go_downwards_only() {
    let mut used = BTreeSet::new();
    for (file, code) in sources() {
        let from = module(&file);
        for to in imports(&code) {
            if layer(&to) >= layer(from) {
                continue;
            }
            let known = UPWARDS.iter().find(|(a, b, _)| *a == from && *b == to);
            assert!(
                known.is_some(),
                "src/{file} imports `{to}` of the layer above: {}",
                LAYERS[layer(&to)].0
            );
            used.insert(known);
        }
    }
    assert_eq!(
        used.len(),
        UPWARDS.len(),
        "an exception is not needed any more: {used:?}"
    );
}

#[test]
fn no_two_modules_below_the_commands_import_each_other() {
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, code) in sources() {
        let from = module(&file);
        if layer(from) > 0 {
            let mut to = imports(&code);
            to.remove(from);
            graph.entry(from.to_owned()).or_default().extend(to);
        }
    }
    // What imports nothing that is left can go; a circle stays.
    while let Some(free) = graph
        .iter()
        .find(|(_, to)| to.is_empty())
        .map(|(name, _)| name.clone())
    {
        graph.remove(&free);
        for to in graph.values_mut() {
            to.remove(&free);
        }
    }
    assert!(graph.is_empty(), "these import each other: {graph:#?}");
}

#[test]
fn libraries_are_seen_where_they_belong() {
    for (file, code) in sources() {
        for (library, places) in LIBRARIES {
            let path = format!("{library}::");
            let seen = code.match_indices(&path).any(|(at, _)| {
                let before = code[..at].chars().next_back();
                before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':')
            });
            assert!(
                !seen || places.contains(&file.as_str()),
                "src/{file} sees `{library}`: it belongs in {places:?}"
            );
        }
    }
}

#[test]
fn the_file_system_is_touched_where_it_belongs() {
    let mut touching = BTreeSet::new();
    for (file, code) in sources() {
        if code.contains("std::fs") || code.contains("File::open") || code.contains("OpenOptions") {
            let known = FILE_SYSTEM.iter().any(|(name, _)| *name == file);
            assert!(
                known,
                "src/{file} touches the file system: that belongs in store/local.rs"
            );
            touching.insert(file);
        }
    }
    assert_eq!(
        touching.len(),
        FILE_SYSTEM.len(),
        "only these do: {touching:?}"
    );
}

#[test]
fn nothing_but_the_commands_prints() {
    for (file, code) in sources() {
        for word in ["println!", "eprintln!", "print!(", "dbg!"] {
            assert!(!code.contains(word), "src/{file} has `{word}`");
        }
        let stdout = code.contains("stdout()");
        assert!(
            !stdout || module(&file) == "command",
            "src/{file} writes to stdout"
        );
    }
}

#[test]
fn every_module_opens_with_what_it_is_for() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in modules(&root) {
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("//! "), "{}", file.display());
    }
}
