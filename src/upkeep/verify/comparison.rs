//! The source's files read beside a shard, and compared with its contents piece by piece.

use std::collections::HashMap;
use std::io::Read;

use crate::base::buffer::Buffer;
use crate::base::error::{Kind, Result};
use crate::model::sample::Sample;
use crate::pack::lookahead::{Content, Large, Lookahead};
use crate::store::Source;

/// The files of a shard's samples, in the order of the shard.
pub(super) struct SourceComparison<'a> {
    ahead: Lookahead<'a>,
    /// For each sample of the shard, whether the source has it.
    present: Vec<bool>,
    /// Sample of the shard that `files` belongs to.
    entered: Option<usize>,
    files: Vec<SourceFile<'a>>,
    /// Files of samples before it whose content comes later in the shard, by sample; `None` in a layout where no content does.
    waiting: Option<HashMap<usize, Vec<SourceFile<'a>>>>,
}

/// One file of the source, compared piece by piece.
pub(super) struct SourceFile<'a> {
    field: String,
    /// Its length in bytes.
    pub(super) size: u64,
    content: SourceContent<'a>,
    /// Bytes compared so far.
    compared: u64,
    /// The first byte that differs.
    pub(super) differs: Option<u64>,
    /// Whether the field's content was read to its end.
    done: bool,
}

/// What was read of a file of the source.
enum SourceContent<'a> {
    Held(Buffer),
    Large(Large<'a>),
    Failed(String),
}

impl<'a> SourceComparison<'a> {
    /// Begins to read the files of these samples, one for each of the shard, `None` where the source has none such. `deferred` says that
    /// the layout writes contents later than their sample.
    pub(super) fn new(
        source: &'a dyn Source,
        samples: Vec<Option<Sample>>,
        window_bytes: u64,
        deferred: bool,
    ) -> Self {
        let present = samples.iter().map(Option::is_some).collect();
        let samples = samples.into_iter().flatten().map(|sample| Ok((0, sample)));
        Self {
            ahead: Lookahead::new(source, samples, window_bytes),
            present,
            entered: None,
            files: Vec::new(),
            waiting: deferred.then(HashMap::new),
        }
    }

    /// Moves on to the files of a sample of the shard.
    pub(super) fn enter(&mut self, sample: usize) -> Result<()> {
        if self.entered.is_some_and(|entered| entered >= sample) {
            return Ok(());
        }
        self.put_aside();
        let next = self.entered.map_or(0, |entered| entered + 1);
        self.entered = Some(sample);
        // Samples whose members were not reached are passed over.
        for passed in next..=sample {
            if !self.present.get(passed).copied().unwrap_or(false) {
                continue;
            }
            let Some(fetched) = self.ahead.fetch() else {
                return Ok(());
            };
            let fetched = fetched?;
            if passed < sample {
                continue;
            }
            for (field, content) in fetched.sample.fields.iter().zip(fetched.contents) {
                let content = match content {
                    Ok(Content::Held(bytes)) => SourceContent::Held(bytes),
                    Ok(Content::Large(large)) => SourceContent::Large(large),
                    Err(error) if error.kind() == Kind::Source => {
                        SourceContent::Failed(error.to_string())
                    }
                    Err(error) => return Err(error),
                };
                self.files.push(SourceFile {
                    field: field.name.clone(),
                    size: field.size,
                    content,
                    compared: 0,
                    differs: None,
                    done: false,
                });
            }
        }
        Ok(())
    }

    /// Lets the files of the sample entered last wait that were not compared yet: as little as what the packer let wait.
    fn put_aside(&mut self) {
        if let (Some(waiting), Some(entered)) = (&mut self.waiting, self.entered) {
            let left: Vec<SourceFile<'_>> =
                self.files.drain(..).filter(|file| !file.done).collect();
            if !left.is_empty() {
                waiting.insert(entered, left);
            }
        }
        self.files.clear();
    }

    /// A file of the sample entered last, or of one before it that waits.
    pub(super) fn file(&mut self, sample: usize, field: &str) -> Option<&mut SourceFile<'a>> {
        let files = match (&mut self.waiting, self.entered) {
            (Some(waiting), Some(entered)) if sample < entered => waiting.get_mut(&sample)?,
            _ => &mut self.files,
        };
        files.iter_mut().find(|file| file.field == field)
    }

    /// Lets go of a sample that waited, once all of its files were compared.
    pub(super) fn forget(&mut self, sample: usize) {
        if let Some(waiting) = &mut self.waiting
            && waiting
                .get(&sample)
                .is_some_and(|files| files.iter().all(|file| file.done))
        {
            waiting.remove(&sample);
        }
    }
}

impl SourceFile<'_> {
    /// Compares the next piece of the shard's content with the same bytes of the file.
    pub(super) fn compare(&mut self, piece: &[u8]) {
        let from = self.compared;
        self.compared += piece.len() as u64;
        if self.differs.is_some() {
            return;
        }
        let mut read = Vec::new();
        let theirs: &[u8] = match &mut self.content {
            SourceContent::Held(bytes) => {
                let start = (from as usize).min(bytes.len());
                &bytes[start..(start + piece.len()).min(bytes.len())]
            }
            SourceContent::Large(large) => {
                match large.take(piece.len() as u64).read_to_end(&mut read) {
                    Ok(_) => &read,
                    Err(error) => {
                        self.content = SourceContent::Failed(error.to_string());
                        return;
                    }
                }
            }
            SourceContent::Failed(_) => return,
        };
        if theirs != piece {
            let same = theirs.iter().zip(piece).take_while(|(a, b)| a == b).count();
            self.differs = Some(from + same as u64);
        }
    }

    /// Ends the comparison; says why the file could not be read, if so.
    pub(super) fn end(&mut self) -> Option<&str> {
        self.done = true;
        match &self.content {
            SourceContent::Failed(why) => Some(why),
            _ => None,
        }
    }
}
