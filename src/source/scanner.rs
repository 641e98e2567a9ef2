//! What a scan has found so far: problems, of which all are told at once, and what is odd but no problem.

use crate::base::error::{Error, Result};
use crate::base::text::show;
use crate::model::listing::{Dir, Problem, ProblemKind, render};
use crate::model::sample::{SourcePath, split_extension};
use crate::source::rules::{Rules, as_path, excluded};
use crate::source::samples::{Notes, Scan, is_unread_image, kinds_text};

/// Examples kept of files that are neither images nor sidecars.
const ODD_EXAMPLES: usize = 20;
/// Extensions of such files that are told apart.
const ODD_KINDS: usize = 20;
/// Of so many images one may be of a kind that is not read before the source is refused.
const UNREAD_ONE_IN: u64 = 100;

/// Reads a listing, and gathers all that is wrong with it before anything is refused.
pub(super) struct Scanner<'a> {
    pub(super) rules: &'a Rules,
    /// Name of the source, for messages.
    pub(super) source: &'a str,
    /// What is to be refused.
    pub(super) problems: Vec<Problem>,
    pub(super) notes: Notes,
    /// Images of kinds that are not read.
    pub(super) unread: Vec<SourcePath>,
    /// Which rows of the metadata an image has.
    pub(super) rows_seen: Vec<bool>,
}

impl<'a> Scanner<'a> {
    /// One that has these problems already, and so many hidden files.
    pub(super) fn new(
        rules: &'a Rules,
        source: &'a str,
        problems: Vec<Problem>,
        hidden: u64,
    ) -> Self {
        Self {
            rules,
            source,
            problems,
            notes: Notes {
                hidden,
                left_out: rules.left_out_before,
                ..Notes::default()
            },
            unread: Vec::new(),
            rows_seen: Vec::new(),
        }
    }
}

impl Scanner<'_> {
    /// Adds a reason to refuse the source.
    pub(super) fn problem(
        &mut self,
        kind: ProblemKind,
        path: impl Into<SourcePath>,
        detail: impl Into<String>,
    ) {
        self.problems.push(Problem::new(kind, path, detail));
    }

    /// Counts a file that is neither an image nor a sidecar of one.
    pub(super) fn odd(&mut self, path: &SourcePath) {
        self.notes.odd += 1;
        let extension = split_extension(path.as_bytes()).1;
        let kind = match extension.contains(&b'/') {
            true => String::new(),
            false => show(&extension.to_ascii_lowercase()),
        };
        let kinds = &mut self.notes.odd_kinds;
        let kind = match kinds.len() < ODD_KINDS || kinds.contains_key(&kind) {
            true => kind,
            false => "others".to_owned(),
        };
        *kinds.entry(kind).or_default() += 1;
        if self.rules.doubt && is_unread_image(path.as_bytes()) {
            self.unread.push(path.clone());
        }
        if self.notes.odd_examples.len() < ODD_EXAMPLES {
            self.notes.odd_examples.push(path.to_string());
        }
    }

    /// Applies `--include` and `--exclude`. A directory that had images and lost all of them is no class any more.
    pub(super) fn filter(&mut self, dirs: &mut Vec<Dir>) {
        let Rules {
            include, exclude, ..
        } = self.rules;
        if include.is_empty() && exclude.is_empty() {
            return;
        }
        let mut left_out = 0;
        dirs.retain_mut(|dir| {
            if excluded(exclude, &dir.path) {
                left_out += dir.len() as u64;
                return false;
            }
            let path = dir.path.clone();
            let gone = dir.retain(|name| {
                let file = SourcePath::join(&path, name);
                let file = as_path(file.as_bytes());
                (include.is_empty() || include.is_match(file)) && !exclude.is_match(file)
            });
            left_out += gone;
            gone == 0 || !dir.is_empty()
        });
        self.notes.left_out += left_out;
    }

    /// Refuses a source with any problem, and one without samples.
    pub(super) fn refuse(&mut self, scan: &Scan) -> Result<()> {
        let unread = self.unread.len() as u64;
        if unread * UNREAD_ONE_IN > unread + scan.entries.len() as u64 {
            for path in std::mem::take(&mut self.unread) {
                self.problem(ProblemKind::UnreadKind, path, "");
            }
        }
        let told = |problem: &Problem| problem.kind == ProblemKind::UnreadKind;
        let left_out = match self.problems.iter().any(told) {
            true => format!("\n  left out {}", kinds_text(&scan.notes.odd_kinds)),
            false => String::new(),
        };
        if !self.problems.is_empty() {
            let count = self.problems.len();
            for Problem { kind, path, detail } in &self.problems {
                self.rules.problems.tell(kind.explain().0, path, detail);
            }
            return Err(Error::source_data(format!(
                "{}: {count} problem{}, nothing was written{}{left_out}",
                self.source,
                if count == 1 { "" } else { "s" },
                render(&mut self.problems)
            )));
        }
        if scan.entries.is_empty() {
            let odd = match scan.notes.odd {
                0 => String::new(),
                n => format!(
                    " ({n} other files, such as {})",
                    scan.notes.odd_examples.join(", ")
                ),
            };
            return Err(Error::source_data(format!(
                "{}: no images{odd}: give a directory with one directory of images per class \
                 (jpg, png, webp, gif, bmp, tiff, ppm)",
                self.source
            )));
        }
        Ok(())
    }
}
