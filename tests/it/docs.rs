//! The examples of README.md and docs/ do what they say, and the manifest's schema fits what is written.
//!
//! A ```console block holds `$ ` lines, which sh runs, each with some lines of its output, in order; `…` stands for anything and
//! `# exit 4` for another exit code than 0. A ```python block runs when it needs the standard library only. All blocks of a file
//! run in one directory, which holds `images/`, two classes of twelve pictures; so does the bucket of a server.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::support::files;
use shardpack_fixtures::s3_server::Server;

const PACKAGES: [&str; 15] = [
    "PIL",
    "daft",
    "datasets",
    "duckdb",
    "megatron",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "ray",
    "s3fs",
    "timm",
    "torch",
    "webdataset",
    "wids",
];

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Two classes of twelve JPEGs of some kilobytes, with fixed times.
fn make_images(root: &Path) {
    for (class, shift) in [("cat", 0), ("dog", 5)] {
        let dir = root.join(class);
        fs::create_dir_all(&dir).unwrap();
        for number in 1..=12_u32 {
            let pixel = |x: u32, y: u32| {
                let noise = (x * 31 + y * 17 + number * shift).wrapping_mul(2_654_435_761) >> 27;
                image::Rgb([(x + number) as u8, (y * 2) as u8, noise as u8 * 4])
            };
            let path = dir.join(format!("{number:03}.jpg"));
            image::RgbImage::from_fn(160, 120, pixel)
                .save(&path)
                .unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(time)
                .unwrap();
        }
    }
}

/// A directory with the pictures in it, and a server with the same in its bucket.
struct Desk {
    dir: tempfile::TempDir,
    server: Server,
}

impl Desk {
    fn new() -> Self {
        let desk = Self {
            dir: tempfile::tempdir().unwrap(),
            server: Server::start(),
        };
        let images = desk.dir.path().join("images");
        make_images(&images);
        for file in files(&images) {
            let name = file.strip_prefix(desk.dir.path()).unwrap();
            let bytes = fs::read(&file).unwrap();
            desk.server.put(name.to_str().unwrap(), bytes);
        }
        desk
    }
}

fn run(desk: &Desk, program: &str, arguments: &[&str]) -> Output {
    let dir = desk.dir.path();
    let tools = Path::new(env!("CARGO_BIN_EXE_shardpack")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let module = project().join("src/library/python");
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SHARDPACK_")) {
        command.env_remove(name);
    }
    command
        .args(arguments)
        .current_dir(dir)
        .env("PATH", format!("{}:{path}", tools.display()))
        .env("LC_ALL", "C.UTF-8")
        .env("PYTHONPATH", module)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(desk.server.environment())
        .output()
        .unwrap()
}

fn text_of(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    [out.as_slice(), err].map(String::from_utf8_lossy).concat()
}

/// Whether the line is the pattern, with any text for each `…`.
fn fits(line: &str, pattern: &str) -> bool {
    let line = line.trim_end();
    let Some((start, rest)) = pattern.trim_end().split_once('…') else {
        return line == pattern.trim_end();
    };
    let Some(line) = line.strip_prefix(start) else {
        return false;
    };
    let mut places = line.char_indices().map(|(at, _)| at).chain([line.len()]);
    places.any(|at| fits(&line[at..], rest))
}

/// Runs one command and looks for its lines; the error is what to show.
fn check(desk: &Desk, command: &str, expected: &[&str]) -> Result<(), String> {
    let (shell, code) = match command.rsplit_once("# exit ") {
        Some((shell, code)) => (shell, code.trim().parse().unwrap()),
        None => (command, 0),
    };
    // Both streams as one, in the order in which they were written.
    let output = run(desk, "sh", &["-c", &format!("exec 2>&1\n{shell}")]);
    let text = text_of(&output);
    if output.status.code() != Some(code) {
        let status = output.status;
        return Err(format!("$ {command}\n{status}, expected {code}\n{text}"));
    }
    let mut lines = text.lines();
    for pattern in expected
        .iter()
        .filter(|line| !matches!(line.trim(), "" | "…"))
    {
        if !lines.any(|line| fits(line, pattern)) {
            return Err(format!(
                "$ {command}\nno line `{pattern}`, in order, in:\n{text}"
            ));
        }
    }
    Ok(())
}

fn console(desk: &Desk, block: &[&str]) -> Result<(), String> {
    let mut lines = block.iter().peekable();
    while let Some(line) = lines.next() {
        let command = line.strip_prefix("$ ");
        let mut command = command
            .ok_or(format!("`{line}` has no command above it"))?
            .to_owned();
        while let Some(open) = command.strip_suffix('\\') {
            command = format!("{open}{}", lines.next().copied().unwrap_or_default());
        }
        let mut expected = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
            expected.push(*line);
        }
        check(desk, &command, &expected)?;
    }
    Ok(())
}

fn python(desk: &Desk, block: &[&str]) -> Result<(), String> {
    let foreign = |line: &&str| {
        let mut words = line.split([' ', ',', '.']);
        matches!(words.next(), Some("import" | "from"))
            && words.any(|word| PACKAGES.contains(&word))
    };
    if block.iter().any(foreign) {
        return Ok(());
    }
    let output = run(desk, "python3", &["-c", &block.join("\n")]);
    let text = text_of(&output);
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{}\n{}\n{text}", block.join("\n"), output.status)),
    }
}

fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(project().join("docs")).unwrap();
    let mut pages: Vec<_> = docs
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .chain([project().join("README.md")])
        .collect();
    pages.sort();
    pages
}

#[test]
fn the_examples_of_the_documentation_do_what_they_say() {
    let mut wrong = Vec::new();
    let mut examples = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let desk = Desk::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let work: fn(&Desk, &[&str]) -> Result<(), String> = match line {
                "```console" => console,
                "```python" => python,
                _ => continue,
            };
            let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
            examples += 1;
            if let Err(error) = work(&desk, &block) {
                wrong.push(format!("{}: {error}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(examples > 20, "only {examples} examples were found");
}

#[test]
fn links_between_the_pages_lead_somewhere() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
        {
            let target = link.0.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let there = page.parent().unwrap().join(target).exists();
            assert!(there, "{}: {target} is not there", page.display());
        }
    }
}

fn schema() -> jsonschema::Validator {
    let text = fs::read(project().join("docs/manifest.schema.json")).unwrap();
    let schema = serde_json::from_slice(&text).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

/// A manifest with all that a manifest can have.
fn manifest() -> Value {
    let desk = Desk::new();
    let dir = &desk.dir;
    let images = dir.path().join("images");
    let odd = {
        use std::os::unix::ffi::OsStrExt;
        std::ffi::OsStr::from_bytes(b"caf\xe9.jpg").to_owned()
    };
    let jpeg = fs::read(images.join("cat/001.jpg")).unwrap();
    fs::write(images.join("cat").join(odd), &jpeg[..1000]).unwrap();
    let picture = image::RgbImage::new(8, 8);
    let path = images.join("dog/really-a-png.jpg");
    picture
        .save_with_format(&path, image::ImageFormat::Png)
        .unwrap();
    let command = "shardpack convert images out --sha256 --add-json --shards 2 --on-error skip --exclude '*.txt' --split train=.";
    let output = run(&desk, "sh", &["-c", command]);
    assert!(output.status.success(), "{}", text_of(&output));
    serde_json::from_slice(&fs::read(dir.path().join("out/manifest.json")).unwrap()).unwrap()
}

#[test]
fn the_schema_fits_a_manifest_and_nothing_else() {
    let (schema, manifest) = (schema(), manifest());
    let wrong: Vec<_> = schema
        .iter_errors(&manifest)
        .map(|e| e.to_string())
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        manifest["skipped"][0]["path"]["hex"].is_string(),
        "{manifest}"
    );
    assert!(manifest["odd"][0]["path"].is_string(), "{manifest}");
    for (place, value) in [
        ("/kind", json!("shardpack-plan")),
        ("/version", json!(2)),
        ("/plan", json!("12ab")),
        ("/samples", json!(-1)),
        ("/samples", json!("24")),
        ("/recipe/order", json!("random")),
        ("/recipe/cut", json!({"shard_bytes": 1, "shards": 1})),
        ("/splits/0/shards/0/name", json!("../train-00000.tar")),
        ("/splits/0/shards/0/crc32", json!(123)),
        ("/splits/0/shards/0/sha256", json!("DEADBEEF")),
        (
            "/splits/0/shards/0/index",
            json!("data/train-00000.parquet"),
        ),
        ("/skipped/0/path", json!({"hex": "abc"})),
        ("/classes", json!([1, 2])),
    ] {
        let mut changed = manifest.clone();
        *changed.pointer_mut(place).unwrap() = value;
        assert!(!schema.is_valid(&changed), "{place}");
    }
    for place in [
        "",
        "/recipe",
        "/splits/0",
        "/splits/0/shards/0",
        "/skipped/0",
    ] {
        let mut changed = manifest.clone();
        let object = changed.pointer_mut(place).unwrap().as_object_mut().unwrap();
        object.insert("extra".to_owned(), json!(1));
        assert!(!schema.is_valid(&changed), "{place}/extra");
    }
}

/// The files below a directory that end like this, one after the other.
fn text_below(directory: &Path, ending: &str) -> String {
    let found = files(directory).into_iter();
    let found = found.filter(|path| path.to_str().is_some_and(|path| path.ends_with(ending)));
    found
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}

#[test]
fn whoever_looks_for_a_message_on_the_page_of_symptoms_looks_for_one_that_there_is() {
    let page = fs::read_to_string(project().join("docs/troubleshooting.md")).unwrap();
    let source = project().join("src");
    // Long messages stand on several lines there.
    let joined = text_below(&source, ".rs").replace("\\\n", "");
    let code =
        joined.split_whitespace().collect::<Vec<_>>().join(" ") + &text_below(&source, ".py");
    let mut symptoms = 0;
    for row in page.lines().filter_map(|line| line.strip_prefix("| `")) {
        let said = row.split('`').next().unwrap();
        assert!(code.contains(said), "nothing says `{said}`");
        symptoms += 1;
    }
    assert!(symptoms > 10, "only {symptoms}");
}
