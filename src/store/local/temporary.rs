//! Files that are being written: their temporary names, and how a living writer is told from a dead one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::store::local::steps::Steps;

/// A file being written under a temporary name, locked as ours. Dropped before it got its own name, it is removed.
pub(super) struct Temporary {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) steps: Steps,
    /// Whether it got its own name.
    pub(super) placed: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.placed {
            let _ = self
                .steps
                .take("remove", &self.path, || fs::remove_file(&self.path));
        }
    }
}

/// A name for a file that is to get the name `name`; `random` tells it from all others.
pub(super) fn temporary_name(name: &str, random: &str) -> String {
    format!(".{name}.{}-{random}.tmp", machine())
}

/// Whether a file has the name of one that is being written.
pub(super) fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".tmp")
}

/// Whether an open file has no name any more.
pub(super) fn was_removed(file: &File) -> io::Result<bool> {
    match file.metadata() {
        Ok(meta) => Ok(meta.nlink() == 0),
        // What a network file system says of a file that another machine removed.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::STALE) => Ok(true),
        Err(error) => Err(error),
    }
}

/// The name that a temporary file was to get: `data/.x.tar.MACHINE-RANDOM.tmp` → `data/x.tar`.
pub(super) fn name_to_get(temporary: &str) -> String {
    let (dir, name) = temporary.rsplit_once('/').unwrap_or(("", temporary));
    let name = name.strip_prefix('.').unwrap_or(name);
    let name = name.strip_suffix(".tmp").unwrap_or(name);
    let name = name.rsplit_once('.').map_or(name, |(name, _)| name);
    match dir {
        "" => name.to_owned(),
        dir => format!("{dir}/{name}"),
    }
}

/// The machine that a temporary file's name says it was made on, `None` if it is no name that is given here: `.NAME.MACHINE-RANDOM.tmp`,
/// in earlier versions `.NAME.MACHINE-PID-N.tmp`.
pub(super) fn made_on(temporary: &str) -> Option<&str> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    let (_, tail) = temporary
        .strip_prefix('.')?
        .strip_suffix(".tmp")?
        .rsplit_once('.')?;
    let (machine, own) = tail.split_once('-')?;
    let known = match own.split_once('-') {
        None => own.len() == 32 && hex(own),
        Some((process, count)) => digits(process) && digits(count),
    };
    (known && hex(machine)).then_some(machine)
}

/// A temporary file without a living writer, locked: whoever made it a moment ago waits for the lock and then sees whether it
/// was removed. `None` if a writer holds it, or it is gone.
pub(super) fn lock_of_the_dead(path: &Path) -> Option<File> {
    let file = OpenOptions::new().write(true).open(path).ok()?;
    file.try_lock().is_ok().then_some(file)
}

/// Tells the temporary files of this machine (since its start) from those of others, whose locks need not reach here. Empty where
/// a machine does not say when it started: nothing of that name is swept, for it could be anybody's.
pub(super) fn machine() -> &'static str {
    static MACHINE: OnceLock<String> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        boot.chars()
            .filter(char::is_ascii_hexdigit)
            .take(12)
            .collect()
    })
}

/// Gives `temporary` the name `path` if nothing has it.
pub(super) fn place_if_absent(temporary: &Path, path: &Path) -> io::Result<()> {
    // A hard link is the one way that network file systems have too; FAT and its like know only the other.
    let linkless = [Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS].map(Errno::raw_os_error);
    match fs::hard_link(temporary, path) {
        Err(error) if error.raw_os_error().is_some_and(|e| linkless.contains(&e)) => {
            rename_if_absent(temporary, path)
        }
        placed => placed,
    }
}

fn rename_if_absent(temporary: &Path, path: &Path) -> io::Result<()> {
    let flags = RenameFlags::NOREPLACE;
    Ok(renameat_with(CWD, temporary, CWD, path, flags)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_are_known_by_their_names() {
        for (name, machine) in [
            (
                ".x.tar.0123456789ab-00112233445566778899aabbccddeeff.tmp",
                "0123456789ab",
            ),
            // A machine that does not say when it started.
            (".x.tar.-00112233445566778899aabbccddeeff.tmp", ""),
            // As earlier versions named them.
            (".x.tar.0123456789ab-77-0.tmp", "0123456789ab"),
            ("..info.json.0123456789ab-1-12.tmp", "0123456789ab"),
            (".x.tar.-77-0.tmp", ""),
        ] {
            assert_eq!(made_on(name), Some(machine), "{name}");
            assert!(is_temporary(name));
        }
        for name in [
            ".x.tmp",
            ".x.tar.77-0.tmp",
            ".x.ab-7-x.tmp",
            ".x.ab-7-0-1.tmp",
            ".x.tar.ab-00112233445566778899aabbccddeef.tmp",
            ".x.tar.ab-00112233445566778899aabbccddeefg.tmp",
        ] {
            assert_eq!(made_on(name), None, "{name}");
        }
        for tail in ["77-0", "00112233445566778899aabbccddeeff"] {
            let name = format!("data/.x.tar.0123456789ab-{tail}.tmp");
            assert_eq!(name_to_get(&name), "data/x.tar");
        }
    }

    #[test]
    fn both_ways_of_placing_leave_what_is_there_alone() {
        let dir = tempfile::tempdir().unwrap();
        let [new, path] = ["new", "path"].map(|name| dir.path().join(name));
        for place in [place_if_absent, rename_if_absent] {
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(&new);
            fs::write(&new, "first").unwrap();
            place(&new, &path).unwrap();
            let _ = fs::remove_file(&new);
            fs::write(&new, "second").unwrap();
            let error = place(&new, &path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        }
    }
}
