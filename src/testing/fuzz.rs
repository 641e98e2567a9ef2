//! What reads bytes that others wrote, as functions of these bytes: libFuzzer calls them with ever new ones (`make fuzz`), and the
//! tests here with the corpora, so that what was found once stays mended.
//!
//! A target fails by panicking, by taking more memory or time than it may, or where it sees that two readings of the same contradict
//! each other. Errors are what most of these bytes deserve.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::base::image::{HEAD_BYTES, TAIL_BYTES, Validate, probe, probe_ends};
use crate::format::compress::{Frames, unpack};
use crate::model::manifest::Manifest;
use crate::model::name::check_name;
use crate::model::recipe::{Compression, Format};
use crate::model::record::{Footer, NO_LABEL, ShardRecord};
use crate::model::sample::Field;
use crate::plan::lines::parse_line;
use crate::report::run::Run;
use crate::source::labels::Labels;
use crate::source::metadata::{NAMES, Rows, Table, Wanted, names_files};
use crate::state::plans::{Stored, load_id};
use crate::state::samples::samples;
use crate::store::{self, Access, S3Options};
use crate::upkeep::adopt::{Walked, walk_foreign};
use bytes::Bytes;

/// Most that anything here may unpack to.
const MOST_BYTES: u64 = 1 << 20;
/// What a decoder of images may allocate.
const DECODE_BYTES: u64 = 4 << 20;

const ZSTD: Compression = Compression::Zstd {
    level: 3,
    seekable: false,
};
const GZIP: Compression = Compression::Gzip { level: 6 };

/// A target.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: [(&str, Target); 12] = [
    ("archive", archive),
    ("frames", frames),
    ("image", image),
    ("index", index),
    ("labels", labels),
    ("manifest", manifest),
    ("metadata", metadata),
    ("plan", plan),
    ("s3", s3),
    ("shard_parquet", shard_parquet),
    ("shard_tar", shard_tar),
    ("shard_tfrecord", shard_tfrecord),
];

/// A directory for one input at a time, in memory where that can be: the file system is the slow part of this.
struct Place {
    path: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Place {
    fn take() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = Path::new("/dev/shm");
        let path = match memory.is_dir() {
            true => memory.to_owned(),
            false => std::env::temp_dir(),
        };
        let path = path.join(format!("shardpack-fuzz-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self {
            path,
            _alone: alone,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The names that an archive may have; the first byte chooses one.
const ARCHIVE_NAMES: [&str; 4] = ["x.tar", "x.zip", "x.tar.gz", "x.tar.zst"];

/// An archive that is listed, and all of whose members are read: as many bytes as the listing says, or an error.
fn archive(data: &[u8]) {
    let Some((name, content)) = data.split_first() else {
        return;
    };
    let place = Place::take();
    let path = place
        .path
        .join(ARCHIVE_NAMES[usize::from(*name) % ARCHIVE_NAMES.len()]);
    fs::write(&path, content).unwrap();
    let access = Access {
        reads: Some(1),
        open_files: 16,
        memory: 64 << 20,
        ..Access::default()
    };
    let source = store::source(path.to_str().unwrap(), &access).unwrap();
    let Ok(listing) = source.list() else {
        return;
    };
    for problem in &listing.problems {
        let text = format!("{}{}", problem.path, problem.detail);
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
    let again = source.list().unwrap();
    assert_eq!(again.files(), listing.files());
    for dir in &listing.dirs {
        for i in 0..dir.len() {
            let file = dir.file(i);
            let version = file.version();
            assert_eq!(version.to_string().parse().as_ref(), Ok(&version));
            let field = Field {
                content: None,
                name: "jpg".to_owned(),
                path: dir.path_of(i),
                size: file.size,
                version,
            };
            let parts: Vec<_> = dir.path.split(|&b| b == b'/').collect();
            assert!(!parts.contains(&&b".."[..]) && !dir.path.starts_with(b"/"));
            if file.size <= 1 << 20
                && let Ok(content) = source.start(&field).wait()
            {
                assert_eq!(content.len() as u64, file.size);
            }
        }
    }
}

/// A manifest or a snapshot; a run's summary.
fn manifest(data: &[u8]) {
    let _ = Run::decode("run.json", data);
    let Ok(manifest) = Manifest::decode("manifest.json", data) else {
        return;
    };
    for (_, shard) in manifest.shards() {
        check_name(&shard.name).unwrap();
        check_name(&shard.index).unwrap();
        let _ = manifest.plan_of(shard);
    }
    let _ = manifest.readers();
    let text = manifest.encode().unwrap();
    let again = Manifest::decode("manifest.json", &text).unwrap();
    assert_eq!(again.encode().unwrap(), text);
}

/// A shard's index. Its checksums are made to fit first: damage is found by those, and this is about what lies behind.
fn index(data: &[u8]) {
    let mut data = data.to_vec();
    seal(&mut data);
    let file = Bytes::from(data);
    let size = file.len() as u64;
    let tail = file.slice(file.len().saturating_sub(1 << 10)..);
    let by_tail = Footer::decode("x.parquet", &tail, size);
    let of_file = Footer::of_file("x.parquet", &file);
    if let (Ok(Ok(by_tail)), Ok(of_file)) = (&by_tail, &of_file) {
        assert_eq!(by_tail.samples, of_file.samples);
    }
    let keys = ShardRecord::decode_keys("x.parquet", &file);
    if let Ok(record) = ShardRecord::decode("x.parquet", &file) {
        let decoded: Vec<_> = record.samples.iter().map(|row| row.key.clone()).collect();
        assert_eq!(keys.unwrap(), decoded);
        assert_eq!(of_file.unwrap().samples, decoded.len() as u64);
        let _ = record.unpacked_bytes();
    }
}

/// Makes the checksums of an index right, where it has places for them.
fn seal(file: &mut [u8]) {
    let Some(at) = file.len().checked_sub(8) else {
        return;
    };
    let length = u32::from_le_bytes(std::array::from_fn(|i| file[at + i])) as usize;
    let Some(start) = at.checked_sub(length).and_then(|at| at.checked_sub(4)) else {
        return;
    };
    let (pages, sealed) = file.split_at_mut(start);
    let name = b"\"rows_crc32\":\"";
    let found = sealed.windows(name.len()).position(|some| some == name);
    let place = found.and_then(|at| sealed.get_mut(at + name.len()..at + name.len() + 8));
    if let Some(place) = place {
        let mut text = String::new();
        let _ = write!(text, "{:08x}", crc32fast::hash(pages));
        place.copy_from_slice(text.as_bytes());
    }
    let crc = crc32fast::hash(&sealed[4..]);
    sealed[..4].copy_from_slice(&crc.to_le_bytes());
}

/// A reader that gives a few bytes at a time.
struct Short<'a>(&'a [u8], usize);

impl Read for Short<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1 = self.1 * 7 % 509 + 1;
        let some = into.len().min(self.1);
        self.0.read(&mut into[..some])
    }
}

/// A shard that anybody made, packed in each way: what is seen does not depend on how it is read, and lies within the shard.
fn walk(name: &str, format: Format, data: &[u8]) {
    let walked = |compress, short| match short {
        false => walk_foreign(name, "x", (format, compress), data, MOST_BYTES),
        true => walk_foreign(name, "x", (format, compress), Short(data, 1), MOST_BYTES),
    };
    for compress in [Compression::None, ZSTD, GZIP] {
        let Ok(seen) = walked(compress, false) else {
            continue;
        };
        let again = walked(compress, true).unwrap();
        assert_eq!(seen.bytes, (data.len() as u64, crc32fast::hash(data)));
        assert_eq!(again.bytes, seen.bytes);
        // How much comes out before the place where it is damaged depends on how it is handed over.
        let torn = |seen: &Walked| {
            let mut whats = seen.found.iter().map(|finding| &finding.what);
            whats.any(|what| what.starts_with("cannot be unpacked"))
        };
        assert_eq!(torn(&seen), torn(&again));
        if !torn(&seen) {
            assert_eq!(format!("{seen:?}"), format!("{again:?}"));
        }
        for row in &seen.rows {
            let end = row.offset.checked_add(row.length).unwrap();
            assert!(end <= seen.unpacked_bytes, "{row:?}");
        }
    }
}

/// A tar.
fn shard_tar(data: &[u8]) {
    walk("x.tar", Format::WebDataset, data);
}

/// A TFRecord.
fn shard_tfrecord(data: &[u8]) {
    walk("x.tfrecord", Format::TfRecord, data);
}

/// A table of metadata; the first byte says of which kind.
fn metadata(data: &[u8]) {
    let Some((name, content)) = data.split_first() else {
        return;
    };
    let tables = [Table {
        name: NAMES[usize::from(*name) % NAMES.len()].to_owned(),
        dir: b"train".to_vec(),
        bytes: Bytes::copy_from_slice(content),
    }];
    let is_table = names_files(&tables[0]);
    let Ok(rows) = Rows::parse(&tables, &Wanted::default(), 16 << 20) else {
        return;
    };
    assert!(is_table.is_ok() && rows.len() > 0);
    for row in rows.iter() {
        assert!(row.path.starts_with(b"train/"));
        assert!(rows.find(&row.path).is_some());
        assert!(row.label == NO_LABEL || (row.label as usize) < rows.classes.len());
        for (name, content) in row.fields() {
            let is_json = serde_json::from_str::<serde_json::Value>(content).is_ok();
            assert!(name == "txt" || is_json, "{content}");
        }
    }
}

/// A Parquet shard.
fn shard_parquet(data: &[u8]) {
    walk("x.parquet", Format::Parquet, data);
}

/// A seek table, and frames of zstd and gzip.
fn frames(data: &[u8]) {
    let announced = Frames::announced_bytes(data);
    let table = announced
        .and_then(|bytes| data.len().checked_sub(usize::try_from(bytes).ok()?))
        .map_or(data, |start| &data[start..]);
    if let Ok(frames) = Frames::parse(table) {
        let (packed, unpacked) = frames.totals();
        assert!(packed >= table.len() as u64);
        let ranges = (0..unpacked.min(64)).map(|at| (at * unpacked / 64, unpacked / 64));
        for frame in frames.cover(ranges) {
            assert!(frame.offset + frame.length <= packed, "{frame:?}");
        }
    }
    for compress in [ZSTD, GZIP] {
        let read = |short| {
            let packed: Box<dyn Read + Send + '_> = match short {
                false => Box::new(data),
                true => Box::new(Short(data, 1)),
            };
            let mut content = Vec::new();
            let end = unpack(compress, packed, MOST_BYTES)
                .unwrap()
                .read_to_end(&mut content);
            assert!(content.len() as u64 <= MOST_BYTES + 1);
            (end.is_ok(), content)
        };
        let (whole, short) = (read(false), read(true));
        assert_eq!(whole.0, short.0);
        // Where it is damaged, what came before need not be the same.
        assert!(!whole.0 || whole.1 == short.1);
    }
}

/// A label file, and behind a zero byte a synset file.
fn labels(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let text = parts.next().unwrap_or_default();
    let synsets = parts.next().map(|text| ("synsets.txt", text));
    let parsed = Labels::parse("labels.csv", text, synsets);
    let Ok(labels) = parsed else {
        let told = parsed.unwrap_err();
        assert!(!told.is_empty() && told.len() < 4096, "{told}");
        return;
    };
    let classes = labels.classes().len();
    let within = |label: Option<u32>| assert!(label.is_none_or(|label| (label as usize) < classes));
    for (_, name) in labels.names() {
        let label = labels.by_name(name.as_bytes());
        assert!(label.is_some(), "{name:?} is in the file and is not found");
        within(label);
    }
    within(labels.by_position(0));
    within(labels.by_position(text.len()));
    within(labels.by_name(text));
}

/// An image, whole and by its ends.
fn image(data: &[u8]) {
    let header = probe(data, Validate::Header, DECODE_BYTES);
    let decoded = probe(data, Validate::Decode, DECODE_BYTES);
    // What does not open does not decode.
    assert!(header.is_ok() || decoded.is_err());
    let head = &data[..data.len().min(HEAD_BYTES)];
    let tail = &data[data.len() - data.len().min(TAIL_BYTES)..];
    let ends = probe_ends(head, tail, data.len() as u64);
    if data.len() <= HEAD_BYTES {
        assert_eq!(ends.is_ok(), header.is_ok());
    }
    // The middle of it is not at hand.
    let some = data.len() / 3;
    let _ = probe_ends(&data[..some], &data[data.len() - some..], data.len() as u64);
}

/// A stored plan, and behind a zero byte its list of samples. Its ids are made to fit first.
fn plan(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (text, lines) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let parsed = lines
        .split(|byte| *byte == b'\n')
        .map(|line| parse_line("samples.jsonl", line));
    let parsed: Vec<_> = parsed.collect();
    let Ok(mut stored) = serde_json::from_slice::<Stored>(text) else {
        return;
    };
    stored.id = stored.plan.id();
    stored.digest = stored.plan.digest();
    let place = Place::take();
    let dir = place.path.join("_shardpack/plan").join(&stored.id);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("plan.json"), serde_json::to_vec(&stored).unwrap()).unwrap();
    fs::write(dir.join("samples.jsonl.zst"), lines).unwrap();
    let sink = store::sink(place.path.to_str().unwrap(), &Access::default()).unwrap();
    if let Ok(loaded) = load_id(sink.as_ref(), &stored.id) {
        let _ = (
            loaded.plan.samples(),
            loaded.plan.bytes(),
            loaded.plan.dataset(),
        );
        for (number, shard) in loaded.plan.shards.iter().enumerate().take(4) {
            check_name(&shard.name).unwrap();
            let _ = samples(sink.as_ref(), &loaded, number);
        }
    }
    for sample in parsed.into_iter().flatten() {
        let _ = sample.image().map(|image| image.path.to_string());
    }
}

/// What an S3 server answers: the first byte chooses what is asked, the second the status, and the rest is the answer's body.
fn s3(data: &[u8]) {
    let [asked, status, body @ ..] = data else {
        return;
    };
    let status = [200, 400, 403, 404, 409, 412, 301, 501][usize::from(*status) % 8];
    let server = Server::get();
    server.answer(status, body);
    let access = server.access();
    let source = store::source("s3://bucket/images", &access).unwrap();
    let sink = store::sink("s3://bucket/out", &access).unwrap();
    let told = match asked % 6 {
        0 => source.list().map(|_| ()),
        1 => sink.list("").map(|_| ()),
        2 => sink.leftovers().map(|_| ()),
        3 => sink.get("manifest.json").map(|_| ()),
        4 => sink.put_if_absent("claim", b"x").map(|_| ()),
        _ => sink.create("data/x.tar", 1).and_then(|mut shard| {
            shard.write_all(b"x").unwrap();
            shard.commit(crc32fast::hash(b"x"))
        }),
    };
    if let Err(error) = told {
        let text = error.to_string();
        assert!(
            !text.chars().any(|c| c.is_control() && c != '\n'),
            "{text:?}"
        );
        assert!(text.len() < 4096, "{text}");
    }
}

/// An HTTP server that gives one answer once, and refuses everything that is asked after that.
struct Server {
    port: u16,
    answer: Mutex<Option<(u16, Vec<u8>)>>,
    access: OnceLock<Access>,
}

impl Server {
    fn get() -> &'static Self {
        static SERVER: OnceLock<&'static Server> = OnceLock::new();
        SERVER.get_or_init(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let server: &'static Self = Box::leak(Box::new(Self {
                port: listener.local_addr().unwrap().port(),
                answer: Mutex::new(None),
                access: OnceLock::new(),
            }));
            std::thread::spawn(move || {
                for client in listener.incoming().flatten() {
                    std::thread::spawn(move || server.serve(client));
                }
            });
            server
        })
    }

    fn answer(&self, status: u16, body: &[u8]) {
        *self.answer.lock().unwrap() = Some((status, body.to_vec()));
    }

    fn access(&self) -> Access {
        let access = self.access.get_or_init(|| Access {
            reads: Some(1),
            open_files: 16,
            memory: 64 << 20,
            s3: S3Options {
                endpoint_url: Some(format!("http://127.0.0.1:{}", self.port)),
                region: Some("us-east-1".to_owned()),
                no_sign_request: true,
                retry_for: Duration::ZERO,
                ..S3Options::default()
            },
            ..Access::default()
        });
        access.clone()
    }

    fn serve(&self, client: TcpStream) -> Option<()> {
        client.set_nodelay(true).ok()?;
        let mut reader = BufReader::new(client.try_clone().ok()?);
        let mut writer = client;
        loop {
            let (mut length, mut line, mut head) = (0, String::new(), false);
            loop {
                line.clear();
                if reader.read_line(&mut line).ok()? == 0 {
                    return None;
                }
                head |= line.starts_with("HEAD ");
                let lower = line.to_ascii_lowercase();
                if let Some(bytes) = lower.strip_prefix("content-length:") {
                    length = bytes.trim().parse().ok()?;
                }
                if lower.starts_with("expect:") {
                    writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
                }
                if line == "\r\n" {
                    break;
                }
            }
            io::copy(&mut (&mut reader).take(length), &mut io::sink()).ok()?;
            let denied = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
            let answer = self.answer.lock().ok()?.take();
            let (status, body) = answer.unwrap_or_else(|| (403, denied.to_vec()));
            let top = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/xml\r\ncontent-length: {}\r\netag: \"e\"\r\n\r\n",
                body.len()
            );
            writer.write_all(top.as_bytes()).ok()?;
            if !head {
                writer.write_all(&body).ok()?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn every_input_that_fuzzing_kept_is_read_or_refused() {
        let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
        let mut failed = Vec::new();
        for (name, target) in TARGETS {
            let inputs = fs::read_dir(corpora.join(name)).unwrap();
            let inputs: Vec<_> = inputs.map(|input| input.unwrap().path()).collect();
            assert!(!inputs.is_empty(), "{name} has no corpus");
            for input in inputs {
                let data = fs::read(&input).unwrap();
                if catch_unwind(AssertUnwindSafe(|| target(&data))).is_err() {
                    failed.push(input);
                }
            }
        }
        assert!(failed.is_empty(), "{failed:?}");
    }

    #[test]
    fn every_target_has_a_program_and_a_corpus() {
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz");
        let names = |below: &str| {
            let entries = fs::read_dir(place.join(below)).unwrap();
            let path = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().path();
            let mut names: Vec<_> = entries
                .map(path)
                .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
                .collect();
            names.sort();
            names
        };
        let known = TARGETS.map(|(name, _)| name.to_owned());
        assert_eq!(names("corpus"), known);
        assert_eq!(names("fuzz_targets"), known);
    }
}
