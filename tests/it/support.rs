//! Small sources, runs of the binary, and digests of what it wrote.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output as Finished, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// The program under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_shardpack");

/// Modification time of every file made here: equal data sets make equal plans.
const MODIFIED: u64 = 1_325_376_000;

/// A user who owns nothing.
pub(crate) const NOBODY: u32 = 65534;

/// Path below a directory, with the SHA-256 of the file's content.
pub(crate) type Digests = BTreeMap<String, String>;

/// A source directory under construction, with room for destinations beside it.
pub(crate) struct Dataset {
    dir: TempDir,
    outputs: Cell<u32>,
}

impl Dataset {
    /// A source without any files.
    pub(crate) fn new() -> Self {
        let dir = TempDir::with_prefix("shardpack-it-").unwrap();
        // The runs as another user come by here.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(dir.path().join("source")).unwrap();
        Self {
            dir,
            outputs: Cell::new(0),
        }
    }

    /// Adds a class directory with so many pictures, `NAME/0000.jpg` and on.
    pub(crate) fn class(self, name: &str, pictures: usize) -> Self {
        self.dir(name).pictures(
            &(0..pictures)
                .map(|i| format!("{name}/{i:04}.jpg"))
                .collect::<Vec<_>>(),
        )
    }

    /// Adds pictures at these paths, each with content of its own.
    pub(crate) fn pictures<P: AsRef<Path>>(self, paths: &[P]) -> Self {
        paths.iter().fold(self, |data, path| {
            let picture = picture(&path.as_ref().to_string_lossy());
            data.file(path, picture)
        })
    }

    /// Adds a file, and the directories it lies in.
    pub(crate) fn file(self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Self {
        write(&self.source().join(path), content.as_ref());
        self
    }

    /// Adds a directory.
    pub(crate) fn dir(self, path: impl AsRef<Path>) -> Self {
        fs::create_dir_all(self.source().join(path)).unwrap();
        self
    }

    /// Adds a symbolic link.
    pub(crate) fn link(self, path: &str, target: &str) -> Self {
        std::os::unix::fs::symlink(target, self.source().join(path)).unwrap();
        self
    }

    /// The source directory.
    pub(crate) fn source(&self) -> PathBuf {
        self.dir.path().join("source")
    }

    /// A path beside the source.
    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A path beside the source that nothing lies at yet.
    pub(crate) fn fresh(&self) -> PathBuf {
        self.outputs.set(self.outputs.get() + 1);
        self.place(&format!("output-{}", self.outputs.get()))
    }

    /// The command that converts to `destination`.
    pub(crate) fn command(&self, destination: &Path, flags: &[&str]) -> Command {
        let mut command = shardpack(&["convert"]);
        command.arg(self.source()).arg(destination).args(flags);
        command
    }

    /// Converts to `destination`, however that ends.
    pub(crate) fn convert_to(&self, destination: &Path, flags: &[&str]) -> Run {
        run(&mut self.command(destination, flags))
    }

    /// Converts to a new destination, which must succeed.
    pub(crate) fn convert(&self, flags: &[&str]) -> Output {
        let path = self.fresh();
        let run = self.convert_to(&path, flags);
        run.exits(0);
        Output { path, run }
    }

    /// Converts to a new destination; for data sets that nobody else needs.
    pub(crate) fn convert_kept(self, flags: &[&str]) -> (Self, Output) {
        let output = self.convert(flags);
        (self, output)
    }

    /// A conversion that must be refused with this code and these words, and leave a destination as it was: one that is
    /// not there, and one that holds a published dataset.
    pub(crate) fn refuses(&self, flags: &[&str], code: i32, words: &[&str]) -> Run {
        let absent = self.fresh();
        let run = self.convert_to(&absent, flags);
        run.exits(code).says(words);
        assert!(!absent.exists(), "the destination was made: {}", run.err);

        let other = Dataset::new().class("other", 2);
        let published = other.convert(&[]);
        let before = published.digests();
        // Whichever is seen first: what is wrong here, or that it is another dataset's destination.
        let again = self.convert_to(&published.path, flags);
        assert!([code, 10].contains(&again.code), "{}", again.err);
        assert_eq!(
            before,
            published.digests(),
            "the published dataset was touched"
        );
        run
    }

    /// The program as run by somebody with no rights of their own; as ourselves when we have none to give away.
    pub(crate) fn unprivileged(&self, args: &[&str]) -> Command {
        if !is_root() {
            return shardpack(args);
        }
        let binary = self.place("shardpack");
        if !binary.exists() {
            fs::copy(BINARY, &binary).unwrap();
            fs::set_permissions(&binary, Permissions::from_mode(0o755)).unwrap();
        }
        let mut command = clean(Command::new(binary));
        command.args(args).uid(NOBODY).gid(NOBODY);
        // The directory that cargo runs tests in need not be open to others.
        command.current_dir(self.dir.path());
        command
    }

    /// A directory that anybody may write to, for destinations of [`Dataset::unprivileged`] runs.
    pub(crate) fn open_place(&self, name: &str) -> PathBuf {
        let path = self.place(name);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        path
    }
}

/// A destination after a conversion.
pub(crate) struct Output {
    pub(crate) path: PathBuf,
    pub(crate) run: Run,
}

impl Output {
    /// Every file below it.
    pub(crate) fn digests(&self) -> Digests {
        digests(&self.path)
    }

    /// The digests of the shards alone.
    pub(crate) fn tars(&self) -> Digests {
        let mut all = self.digests();
        all.retain(|name, _| name.starts_with("data/"));
        all
    }

    /// The shards in the order of their names.
    pub(crate) fn shards(&self) -> Vec<PathBuf> {
        files(&self.path.join("data"))
    }

    /// The published manifest.
    pub(crate) fn manifest(&self) -> Value {
        manifest(&self.path)
    }

    /// Keys of all samples in the order of the shards.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for shard in self.shards() {
            for member in members(&shard) {
                if keys.last() != Some(&member.key) {
                    keys.push(member.key);
                }
            }
        }
        keys
    }

    /// Content of the member `KEY.FIELD` of any shard.
    pub(crate) fn member(&self, key: &str, field: &str) -> Vec<u8> {
        self.shards()
            .iter()
            .flat_map(|shard| members(shard))
            .find(|member| member.key == key && member.field == field)
            .unwrap_or_else(|| panic!("no member {key}.{field}"))
            .content
    }

    /// Verifies it.
    pub(crate) fn verify(&self, flags: &[&str]) -> Run {
        run(shardpack(&["verify"]).arg(&self.path).args(flags))
    }

    /// Runs a verb on it.
    pub(crate) fn verb(&self, verb: &str, args: &[&str]) -> Run {
        run(shardpack(&[verb]).arg(&self.path).args(args))
    }

    /// What `inspect` says of a sample.
    pub(crate) fn row(&self, key: &str) -> Value {
        let run = self.verb("inspect", &[key, "--json"]);
        run.exits(0);
        serde_json::from_str(&run.out).unwrap()
    }
}

/// A run that has ended.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) bytes: Vec<u8>,
}

impl Run {
    /// Must have ended with this code.
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(
            self.code, code,
            "\n--- stdout\n{}\n--- stderr\n{}",
            self.out, self.err
        );
        self
    }

    /// Must have said each of these on stdout or stderr.
    #[track_caller]
    pub(crate) fn says(&self, words: &[&str]) -> &Self {
        for word in words {
            assert!(
                self.out.contains(word) || self.err.contains(word),
                "`{word}` is not in\n--- stdout\n{}\n--- stderr\n{}",
                self.out,
                self.err
            );
        }
        self
    }

    /// Its stdout as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

/// One member of a tar.
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) field: String,
    /// First byte of its header.
    pub(crate) start: u64,
    pub(crate) content: Vec<u8>,
}

/// The members of a tar, read by the tar crate.
pub(crate) fn members(shard: &Path) -> Vec<Member> {
    let mut archive = tar::Archive::new(File::open(shard).unwrap());
    let member = |entry: std::io::Result<tar::Entry<'_, File>>| {
        let mut entry = entry.unwrap();
        let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        let (key, field) = path.split_once('.').unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        Member {
            key: key.to_owned(),
            field: field.to_owned(),
            start: entry.raw_header_position(),
            content,
        }
    };
    archive.entries().unwrap().map(member).collect()
}

/// The program with arguments, and nothing of our environment that would change what it does.
pub(crate) fn shardpack(args: &[&str]) -> Command {
    let mut command = clean(Command::new(BINARY));
    command.args(args);
    command
}

fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let bytes = name.as_bytes();
        let ours = bytes.starts_with(b"SHARDPACK_") || bytes.starts_with(b"AWS_");
        if ours || bytes.to_ascii_lowercase().ends_with(b"_proxy") {
            command.env_remove(name);
        }
    }
    // Waiting for the disk tests the disk; runs that are killed say otherwise.
    command.env("SHARDPACK_NO_FSYNC", "true");
    command.stdin(Stdio::null());
    command
}

/// A library to be preloaded, compiled of this file of the project.
pub(crate) fn compiled(source: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let name = source.file_stem().unwrap();
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let to = to.with_extension("so");
    let made = to.with_extension(format!("{}.so", std::process::id()));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&made);
    let status = compiler.arg(&source).arg("-ldl").status();
    assert!(
        status.unwrap().success(),
        "cc is needed: see CONTRIBUTING.md"
    );
    std::fs::rename(&made, &to).unwrap();
    to
}

/// Runs to the end.
pub(crate) fn run(command: &mut Command) -> Run {
    finished(command.output().unwrap())
}

/// What a process left.
pub(crate) fn finished(output: Finished) -> Run {
    use std::os::unix::process::ExitStatusExt;
    Run {
        code: output
            .status
            .code()
            .unwrap_or_else(|| -output.status.signal().unwrap_or(0)),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
        bytes: output.stdout,
    }
}

/// The manifest of a destination.
pub(crate) fn manifest(destination: &Path) -> Value {
    serde_json::from_slice(&fs::read(destination.join("manifest.json")).unwrap()).unwrap()
}

/// All files below `root`, hidden ones too, sorted; none when it is not there.
pub(crate) fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![root.to_owned()];
    while let Some(dir) = todo.pop() {
        let Ok(entries) = fs::read_dir(&dir) else {
            continue;
        };
        for entry in entries {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                todo.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// Digest of every file below `root`.
pub(crate) fn digests(root: &Path) -> Digests {
    let digest = |path: &PathBuf| {
        let name = path.strip_prefix(root).unwrap().to_string_lossy();
        let digest = Sha256::digest(fs::read(path).unwrap());
        let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        (name.into_owned(), digest)
    };
    files(root).iter().map(digest).collect()
}

/// What tells whether a file was written again: its inode and its times.
pub(crate) fn stamps(root: &Path) -> BTreeMap<PathBuf, (u64, i64, i64)> {
    let stamp = |path: PathBuf| {
        let meta = fs::metadata(&path).unwrap();
        let changed = meta.ctime() * 1_000_000_000 + meta.ctime_nsec();
        let modified = meta.mtime() * 1_000_000_000 + meta.mtime_nsec();
        (path, (meta.ino(), modified, changed))
    };
    files(root).into_iter().map(stamp).collect()
}

/// Writes a file with the modification time that all files here have.
pub(crate) fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    set_modified(path, 0);
}

/// Sets a modification time, in seconds after that of all files here.
pub(crate) fn set_modified(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED + seconds);
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

/// Copies a tree, with modification times so many seconds later.
pub(crate) fn copy_tree(from: &Path, to: &Path, later: u64) {
    for file in files(from) {
        let copy = to.join(file.strip_prefix(from).unwrap());
        write(&copy, &fs::read(&file).unwrap());
        set_modified(&copy, later);
    }
}

/// Changes one byte, and nothing else that a listing would show.
pub(crate) fn flip(path: &Path, offset: u64) {
    use std::os::unix::fs::FileExt;
    let file = File::options().read(true).write(true).open(path).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
    file.set_modified(modified).unwrap();
}

/// A valid JPEG of one to four kilobytes that no other name has.
pub(crate) fn picture(name: &str) -> Vec<u8> {
    let mut random = Random::named(name);
    let length = 1000 + random.below(3000) as usize;
    padded_picture(name, length)
}

/// A valid JPEG with about so many bytes of comments made from `name`.
pub(crate) fn padded_picture(name: &str, comment_bytes: usize) -> Vec<u8> {
    static PLAIN: OnceLock<Vec<u8>> = OnceLock::new();
    let plain = PLAIN.get_or_init(|| {
        let image =
            image::RgbImage::from_fn(24, 16, |x, y| image::Rgb([x as u8 * 9, y as u8 * 9, 90]));
        let mut bytes = Vec::new();
        let encoder = image::codecs::jpeg::JpegEncoder::new_with_quality(&mut bytes, 80);
        image.write_with_encoder(encoder).unwrap();
        bytes
    });
    let mut random = Random::named(name);
    let mut picture = plain[..2].to_vec();
    let mut left = comment_bytes;
    while left > 0 {
        let part = left.min(60_000);
        left -= part;
        picture.extend_from_slice(&[0xFF, 0xFE]);
        picture.extend_from_slice(&(part as u16 + 2).to_be_bytes());
        picture.extend((0..part).map(|_| random.next() as u8));
    }
    picture.extend_from_slice(&plain[2..]);
    picture
}

/// A valid PNG.
pub(crate) fn png(red: u8) -> Vec<u8> {
    let image = image::RgbImage::from_pixel(9, 7, image::Rgb([red, 20, 30]));
    let mut bytes = std::io::Cursor::new(Vec::new());
    image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

/// Numbers that are the same in every run (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    /// Starts at a number.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Starts at a name.
    pub(crate) fn named(name: &str) -> Self {
        let digest = Sha256::digest(name.as_bytes());
        Self::new(u64::from_le_bytes(std::array::from_fn(|i| digest[i])))
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A number from our own environment, for tests that can do more.
pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Whether we may become somebody else.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A small file system in memory, gone when dropped.
pub(crate) struct Memory {
    path: PathBuf,
}

impl Memory {
    /// Mounts one of this size, or says why the test that wants it does nothing.
    pub(crate) fn mount(path: PathBuf, options: &str) -> Option<Self> {
        if !is_root() {
            eprintln!("not tested: only root may mount a small file system");
            return None;
        }
        fs::create_dir_all(&path).unwrap();
        match mount(&["-t", "tmpfs", "-o", options, "tmpfs"], &path) {
            Ok(()) => Some(Self { path }),
            Err(reason) => {
                eprintln!("not tested: mount: {reason}");
                None
            }
        }
    }

    /// Changes its options.
    pub(crate) fn remount(&self, options: &str) {
        mount(&["-o", &format!("remount,{options}")], &self.path).unwrap();
    }
}

fn mount(args: &[&str], path: &Path) -> Result<(), String> {
    let output = Command::new("mount").args(args).arg(path).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.path).status();
    }
}
