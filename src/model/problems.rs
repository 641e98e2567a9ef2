//! The file of `--problems`: what is at fault, all of it, where the terminal names the first ones.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::error::{Error, Result};
use crate::base::text::show;
use crate::model::sample::SourcePath;

/// The file of `--problems`, if there is one: a line for each thing at fault, as they are found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems(Option<Arc<Mutex<Lines>>>);

#[derive(Debug)]
struct Lines {
    path: PathBuf,
    out: io::BufWriter<fs::File>,
    failed: Option<io::Error>,
}

impl Problems {
    /// Begins the file, which is empty when nothing is at fault.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = fs::File::create(path)
            .map_err(|error| Error::io(format!("--problems {}", path.display()), error))?;
        Ok(Self(Some(Arc::new(Mutex::new(Lines {
            path: path.to_owned(),
            out: io::BufWriter::new(file),
            failed: None,
        })))))
    }

    /// Adds a line: what is wrong, the file, and the rest, none of which breaks the line.
    pub(crate) fn tell(&self, what: &str, path: &SourcePath, rest: &str) {
        let Some(lines) = &self.0 else { return };
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = show(rest.as_bytes());
        if let Err(error) = writeln!(lines.out, "{what}\t{path}\t{rest}") {
            lines.failed.get_or_insert(error);
        }
    }

    /// Ends the file, and tells whether all of it could be written.
    pub(crate) fn end(&self) -> Result<()> {
        let Some(lines) = &self.0 else { return Ok(()) };
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        let flushed = lines.out.flush();
        match lines.failed.take().map_or(flushed, Err) {
            Ok(()) => Ok(()),
            Err(error) => Err(Error::io(
                format!("--problems {}", lines.path.display()),
                error,
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_a_line_each_and_none_make_an_empty_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("problems.tsv");
        let problems = Problems::create(&path).unwrap();
        problems.end().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
        let odd = SourcePath::new(b"c/a\tb\n\xff.jpg".to_vec());
        problems.tell("gone", &odd, "");
        problems.clone().tell("damaged", &odd, "two\nlines");
        problems.end().unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "gone\tc/a\\x09b\\x0a\\xff.jpg\t\ndamaged\tc/a\\x09b\\x0a\\xff.jpg\ttwo\\x0alines\n"
        );
        assert!(Problems::create(&dir.path().join("none/x")).is_err());
    }
}
