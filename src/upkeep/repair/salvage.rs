//! What a damaged shard still has: each content that is as its index says, read forwards.
//!
//! Nothing of a shard is believed but its contents, and those only by their CRC-32: where they lie follows from the index.

use std::cell::RefCell;
use std::io;

use crate::base::buffer::{Buffer, Pieces};
use crate::base::checksum::Scanner;
use crate::base::error::{Error, Kind, Result};
use crate::base::units::STREAM_ABOVE_BYTES;
use crate::format::compress::unpack;
use crate::model::recipe::{Compression, filling};
use crate::model::record::{FieldRecord, FrameRecord, SampleRecord, ShardRecord};
use crate::store::{Ranges, Sink};

/// Further than this it is better to ask for other bytes than to read those in between.
const LEAP_BYTES: u64 = 8 << 20;

/// A shard as it lies in the store.
#[derive(Clone, Copy)]
pub(super) struct Remains<'a> {
    pub(super) sink: &'a dyn Sink,
    pub(super) compress: Compression,
    pub(super) record: &'a ShardRecord,
    /// Its length now; nothing where it is gone.
    pub(super) bytes: u64,
}

/// A field of a sample, by their numbers in the record.
pub(super) type Place = (usize, usize);

/// What a damaged shard has lost.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// The contents that are not as published, in the order of the record; none that can be made from nothing.
    pub(super) fields: Vec<Place>,
    /// Where its content cannot be unpacked any further, if so.
    pub(super) ends_at: Option<u64>,
}

impl Losses {
    /// Whether a content has to come from somewhere else.
    pub(super) fn has(&self, place: Place) -> bool {
        self.fields.binary_search(&place).is_ok()
    }
}

/// A content that needs nobody to give it back: what samples are filled with that have no such file.
pub(super) fn is_filling(field: &FieldRecord) -> bool {
    let filling = filling(&field.name);
    (field.length, field.crc32) == (filling.len() as u64, crc32fast::hash(filling))
}

impl<'a> Remains<'a> {
    /// A reader for all fields of these numbers, or for all there are: in some layouts fields lie in columns.
    pub(super) fn cursor(&self) -> Cursor<'a> {
        Cursor {
            of: *self,
            open: None,
            ends_at: None,
        }
    }

    /// How many cursors it takes to read all of it forwards.
    pub(super) fn cursors(&self, columns: bool) -> usize {
        let fields = || self.record.samples.iter().map(|row| row.fields.len());
        match columns {
            true => fields().max().unwrap_or(0),
            false => 1,
        }
    }

    /// Reads all of it. Fields of the names in `made` are not contents; `columns` says that each field has a column of its own.
    pub(super) fn losses(&self, made: &[&str], columns: bool) -> Result<Losses> {
        let mut cursors: Vec<_> = (0..self.cursors(columns)).map(|_| self.cursor()).collect();
        let mut losses = Losses::default();
        for (number, row) in self.record.samples.iter().enumerate() {
            for (at, field) in row.fields.iter().enumerate() {
                if made.contains(&field.name.as_str()) || is_filling(field) {
                    continue;
                }
                let cursor = &mut cursors[if columns { at } else { 0 }];
                if !cursor.read(row, field, &mut |_| ())? {
                    losses.fields.push((number, at));
                }
            }
        }
        let frames = matches!(self.compress, Compression::Zstd { seekable: true, .. });
        if self.compress != Compression::None && !frames {
            losses.ends_at = cursors.first().and_then(|cursor| cursor.ends_at);
        }
        Ok(losses)
    }
}

/// Reads contents in the order in which they lie.
pub(super) struct Cursor<'a> {
    of: Remains<'a>,
    open: Option<UnpackedStretch<'a>>,
    /// Where unpacking ended early, of what was opened last.
    ends_at: Option<u64>,
}

/// A stretch of a shard that is unpacked from its beginning.
struct UnpackedStretch<'a> {
    scanner: Scanner<'a>,
    /// Where it begins, in the unpacked shard.
    start: u64,
    frame: Option<FrameRecord>,
    /// Nothing more can be read of it.
    ended: bool,
}

impl UnpackedStretch<'_> {
    fn position(&self) -> u64 {
        self.start + self.scanner.position()
    }
}

/// An error of the store is one; what a decompressor cannot make sense of, or what is not there, is damage.
fn damage(error: io::Error) -> Result<()> {
    match error.downcast::<Error>() {
        Ok(error) if error.kind() != Kind::Damage => Err(error),
        _ => Ok(()),
    }
}

impl<'a> Cursor<'a> {
    /// Goes to the content of a field; false where the shard cannot be read so far.
    fn reach(&mut self, row: &SampleRecord, field: &FieldRecord) -> Result<bool> {
        let (Remains { compress, .. }, offset) = (self.of, field.offset);
        let frame = row.frame.filter(|_| compress != Compression::None);
        let fits = self.open.as_ref().is_some_and(|open| {
            let ahead = offset.checked_sub(open.position());
            open.frame == frame
                && match compress {
                    Compression::None => ahead.is_some_and(|ahead| ahead <= LEAP_BYTES),
                    _ => open.ended || ahead.is_some(),
                }
        });
        if !fits {
            self.open = Some(self.begin(frame, offset)?);
        }
        let Some(open) = &mut self.open else {
            return Ok(false);
        };
        let skip = offset.checked_sub(open.position());
        let Some(skip) = skip.filter(|_| !open.ended) else {
            return Ok(false);
        };
        let skipped = open.scanner.pass(skip, |_| ());
        self.ended(skipped.map(|(read, _)| read == skip))
    }

    /// Opens the stretch that holds what is at `offset`.
    fn begin(&self, frame: Option<FrameRecord>, offset: u64) -> Result<UnpackedStretch<'a>> {
        let Remains {
            sink,
            compress,
            record,
            bytes,
        } = self.of;
        let (at, end, start) = match (compress, frame) {
            (Compression::None, _) => (offset, bytes, offset),
            (_, Some(frame)) => (
                frame.offset,
                frame.offset.saturating_add(frame.length),
                frame.start,
            ),
            (_, None) => (0, bytes, 0),
        };
        let pieces = Ranges::new(sink, &record.shard, at, end.min(bytes));
        let unpacked = unpack(compress, pieces, record.unpacked_bytes())?;
        Ok(UnpackedStretch {
            scanner: Scanner::new(unpacked),
            start,
            frame,
            ended: false,
        })
    }

    /// Takes down that what is open ended, where a read of it says so.
    fn ended(&mut self, read: io::Result<bool>) -> Result<bool> {
        match read {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) => damage(error)?,
        }
        if let Some(open) = &mut self.open {
            open.ended = true;
            self.ends_at = Some(open.position());
        }
        Ok(false)
    }

    /// Gives a content piece by piece; false where it is not what the index says.
    pub(super) fn read(
        &mut self,
        row: &SampleRecord,
        field: &FieldRecord,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        if !self.reach(row, field)? {
            return Ok(false);
        }
        let Some(open) = &mut self.open else {
            return Ok(false);
        };
        let read = open.scanner.pass(field.length, each);
        let same = read.as_ref().is_ok_and(|(_, crc32)| *crc32 == field.crc32);
        Ok(self.ended(read.map(|(read, _)| read == field.length))? && same)
    }
}

/// One content, read when a packer asks for it: contents lie one after the other, and a packer asks in that order.
pub(super) struct LazyContent<'c, 'a> {
    cursor: &'c RefCell<Cursor<'a>>,
    row: &'c SampleRecord,
    field: &'c FieldRecord,
    left: u64,
    begun: bool,
    piece: Buffer,
}

impl<'c, 'a> LazyContent<'c, 'a> {
    pub(super) fn new(
        cursor: &'c RefCell<Cursor<'a>>,
        row: &'c SampleRecord,
        field: &'c FieldRecord,
    ) -> Self {
        Self {
            cursor,
            row,
            field,
            left: field.length,
            begun: false,
            piece: Buffer::default(),
        }
    }

    /// Reads as much as there is room for; less only where the shard ends or cannot be unpacked any more.
    fn fill(&mut self, room: &mut [u8]) -> Result<usize> {
        let mut cursor = self.cursor.borrow_mut();
        if !self.begun {
            self.begun = true;
            if !cursor.reach(self.row, self.field)? {
                return Ok(0);
            }
        }
        let Some(open) = &mut cursor.open else {
            return Ok(0);
        };
        let mut at = 0;
        while at < room.len() {
            match open.scanner.read(&mut room[at..]) {
                Ok(0) => break,
                Ok(n) => at += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(&self.field.name, error)),
            }
        }
        Ok(at)
    }
}

impl Pieces for LazyContent<'_, '_> {
    fn next_piece(&mut self) -> Result<Option<&Buffer>> {
        // Cut as a packer cuts what it reads: what gzip makes of a content depends on it.
        let most = self.left.min(STREAM_ABOVE_BYTES) as usize;
        let mut piece = std::mem::take(&mut self.piece);
        let read = self.fill(piece.room(most))?;
        piece.room(read);
        piece.sum();
        self.left -= read as u64;
        self.piece = piece;
        Ok((read > 0).then_some(&self.piece))
    }
}
