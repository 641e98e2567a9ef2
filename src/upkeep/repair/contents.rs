//! The contents of one sample that is packed again: those that the shard still has, those of the source, and those that need nobody.

use std::cell::RefCell;

use crate::base::buffer::{Buffer, Pieces};
use crate::base::error::{Error, Result};
use crate::model::recipe::filling;
use crate::model::record::{FieldRecord, SampleRecord};
use crate::model::sample::Field;
use crate::pack::lookahead::{Content, Fetched};
use crate::upkeep::repair::salvage::{Cursor, LazyContent, Losses, is_filling};
use crate::upkeep::repair::wanted::is_image;

/// A content on its way into a shard.
pub(super) enum GivenContent<'s> {
    /// All of it, and its CRC-32.
    Held(&'s [u8], u32),
    /// The same, read from the shard itself.
    Salvaged(Vec<u8>, u32),
    /// To be read from the shard, piece by piece.
    Later(Box<dyn Pieces + 's>),
    /// To be read from the source, piece by piece.
    Large(&'s mut dyn Pieces),
}

/// A content that nobody has any more as it was published.
pub(super) fn another_content(what: impl std::fmt::Display) -> Error {
    Error::source_data(format!(
        "{what} has another content than what was published"
    ))
}

/// Where the contents of one sample are.
pub(super) struct Contents<'r, 'c> {
    pub(super) row: &'r SampleRecord,
    /// Its number in the shard.
    pub(super) number: usize,
    /// Names of fields that the layout makes by itself.
    pub(super) made: &'r [&'static str],
    pub(super) losses: &'r Losses,
    pub(super) cursors: &'r [RefCell<Cursor<'c>>],
    /// Whether each field lies in a column of its own, with a cursor for each.
    pub(super) columns: bool,
}

impl<'r> Contents<'r, '_> {
    /// Each content that is not made, in the order in which they lie.
    pub(super) fn gather<'s>(
        &'s self,
        fetched: Option<&'s mut Fetched<'_>>,
    ) -> Result<Vec<(&'r FieldRecord, GivenContent<'s>)>> {
        let mut files = match fetched {
            Some(fetched) => read_files(fetched)?,
            None => Vec::new(),
        };
        let mut given = Vec::with_capacity(self.row.fields.len());
        for (at, field) in self.row.fields.iter().enumerate() {
            if self.made.contains(&field.name.as_str()) {
                continue;
            }
            let content = match (is_filling(field), self.losses.has((self.number, at))) {
                (true, _) => GivenContent::Held(filling(&field.name), field.crc32),
                (_, false) => self.salvaged(at, field)?,
                (_, true) => from_source(field, &mut files)?,
            };
            given.push((field, content));
        }
        Ok(given)
    }

    /// A content that the shard still has.
    fn salvaged<'s>(&'s self, at: usize, field: &'r FieldRecord) -> Result<GivenContent<'s>> {
        let (row, cursor) = (self.row, &self.cursors[if self.columns { at } else { 0 }]);
        // Columns besides that of the images hold small contents, and packers hold those.
        if !self.columns || is_image(row, field) {
            return Ok(GivenContent::Later(Box::new(LazyContent::new(
                cursor, row, field,
            ))));
        }
        let mut content = Vec::new();
        let mut take = |piece: &[u8]| content.extend_from_slice(piece);
        match cursor.borrow_mut().read(row, field, &mut take)? {
            true => Ok(GivenContent::Salvaged(content, field.crc32)),
            false => Err(another_content(format_args!("its `{}`", field.name))),
        }
    }

    /// Only looks whether the files are those that were packed.
    pub(super) fn compare(&self, fetched: Option<&mut Fetched<'_>>) -> Result<()> {
        let mut files = match fetched {
            Some(fetched) => read_files(fetched)?,
            None => return Ok(()),
        };
        for field in &self.row.fields {
            if !files.iter().any(|(file, _)| file.name == field.name) {
                continue;
            }
            if let GivenContent::Large(pieces) = from_source(field, &mut files)? {
                let mut crc32 = crc32fast::Hasher::new();
                while let Some(piece) = pieces.next_piece()? {
                    crc32.update(piece);
                }
                if crc32.finalize() != field.crc32 {
                    return Err(another_content(format_args!("its `{}`", field.name)));
                }
            }
        }
        Ok(())
    }
}

/// A content that is read from the source; it is taken out of what was fetched.
fn from_source<'s, 'l: 's>(
    field: &FieldRecord,
    files: &mut Vec<(&'s Field, &'s mut Content<'l>)>,
) -> Result<GivenContent<'s>> {
    let found = files.iter().position(|(file, _)| file.name == field.name);
    match found.map(|at| files.swap_remove(at)) {
        Some((file, Content::Held(buffer))) => match buffer.crc32 == field.crc32 {
            true => Ok(GivenContent::Held(buffer, buffer.crc32)),
            false => Err(another_content(&file.path)),
        },
        Some((_, Content::Large(large))) => Ok(GivenContent::Large(large)),
        None => Err(another_content(format_args!("its `{}`", field.name))),
    }
}

/// The files of a sample with what was read of them, or the first failure.
fn read_files<'s, 'l>(
    fetched: &'s mut Fetched<'l>,
) -> Result<Vec<(&'s Field, &'s mut Content<'l>)>> {
    let files = fetched.sample.fields.iter().zip(&mut fetched.contents);
    files
        .map(|(file, content)| {
            if content.is_err() {
                let nothing = Ok(Content::Held(Buffer::default()));
                std::mem::replace(content, nothing)?;
            }
            match content {
                Ok(content) => Ok((file, content)),
                Err(_) => Err(another_content(&file.path)),
            }
        })
        .collect()
}
