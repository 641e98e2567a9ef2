//! Files that a flag or a variable names, for people and schedulers: beside any dataset, never in one.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::base::error::{Error, Result};
use crate::base::unique;

/// Writes a file whole, with the directory it is to be in: who opens it sees all of it, or what was there before. `flag` is for messages.
pub(crate) fn write(flag: &str, path: &Path, content: &[u8]) -> Result<()> {
    write_by(flag, path, |out| out.write_all(content))
}

/// The same for content that `work` writes, which is called again where a file cannot be replaced but written to. An error of ours that it
/// gives stays what it is.
pub(crate) fn write_by(
    flag: &str,
    path: &Path,
    mut work: impl FnMut(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let directory = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    directory
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| replace(path, &mut work))
        .map_err(|error| Error::io(format!("{flag} {}", path.display()), error))
}

fn replace(path: &Path, work: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // A pipe or a device is written to, not replaced, and so is what a link leads to.
    let plain = fs::symlink_metadata(path).map_or(true, |meta| meta.is_file());
    let Some(name) = path.file_name().filter(|_| plain) else {
        return work(&mut fs::File::create(path)?);
    };
    let made = unique::make(|random| {
        let mut partial = OsString::from(".");
        partial.push(name);
        partial.push(format!(".{random}.tmp"));
        let partial = path.with_file_name(partial);
        Ok((fs::File::create_new(&partial)?, partial))
    });
    let replaced = made.and_then(|(mut file, partial)| {
        let replaced = work(&mut file).and_then(|()| fs::rename(&partial, path));
        if replaced.is_err() {
            let _ = fs::remove_file(&partial);
        }
        replaced
    });
    let Err(error) = replaced else { return Ok(()) };
    match error.kind() {
        // A single file that is mounted into a container, or one in a directory of somebody else.
        ErrorKind::ResourceBusy | ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            work(&mut fs::File::create(path)?)
        }
        _ => Err(error),
    }
}

/// Reads a file whole.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// Writes a line over the one before it. Who reads it meanwhile never finds it empty.
pub(crate) fn write_line(path: &Path, line: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    file.write_all(format!("{line}\n").as_bytes())?;
    file.set_len(line.len() as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/report.html");
        for text in ["a long first text", "short"] {
            write("--report", &path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_stays_a_link_and_what_cannot_be_made_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&path, "before").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write("--report", &link, b"after").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let below = path.join("below");
        let error = write("--report", &below, b"").unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("--report {}", below.display())),
            "{error}"
        );
    }

    #[test]
    fn a_line_is_written_over_the_longer_one_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("progress");
        for line in ["100/200", "1/2", "1000/2000"] {
            write_line(&path, line).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{line}\n"));
        }
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0);
    }
}
