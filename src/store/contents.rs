//! A source some of whose fields lie in no file: what a row of a table says of an image is in the plan itself, and is read from there.

use std::fmt;

use crate::base::buffer::Buffer;
use crate::base::error::{Error, Result};
use crate::base::reactor::{Pending, promise};
use crate::model::listing::Listing;
use crate::model::sample::{Field, FilePath, Version};
use crate::store::{Dropped, Positioned, Source};

/// A store of files, with the contents that fields bring along.
pub(super) struct WithContents(pub(super) Box<dyn Source>);

/// A part of a content that is there already.
fn ready(content: &str, offset: u64, length: u64) -> Pending<Buffer> {
    let (sender, pending) = promise();
    let end = offset.checked_add(length);
    let part = || {
        content
            .as_bytes()
            .get(usize::try_from(offset).ok()?..usize::try_from(end?).ok()?)
    };
    let buffer = part().map(|part| {
        let mut buffer = Buffer::default();
        buffer.room(part.len()).copy_from_slice(part);
        buffer.sum();
        buffer
    });
    let what = "a content in the plan is shorter than planned: make the plan again";
    // Whoever waits is there: the receiver is in hand.
    let _ = sender.send(buffer.ok_or_else(|| Error::failed(what)));
    pending
}

impl Source for WithContents {
    fn list(&self) -> Result<Listing> {
        self.0.list()
    }

    fn list_again(&self, walks: &dyn Fn() -> Result<Vec<u8>>) -> Result<Listing> {
        self.0.list_again(walks)
    }

    fn walks(&self) -> Vec<u8> {
        self.0.walks()
    }

    fn look(&self, name: &FilePath) -> Result<Option<(u64, Version)>> {
        self.0.look(name)
    }

    fn open(&self, field: &Field) -> Result<Option<Box<dyn Positioned>>> {
        self.0.open(field)
    }

    fn start(&self, field: &Field) -> Pending<Buffer> {
        match &field.content {
            Some(content) => ready(content, 0, field.size),
            None => self.0.start(field),
        }
    }

    fn start_all(&self, fields: &[&Field]) -> Vec<Pending<Buffer>> {
        let (files, _): (Vec<&Field>, Vec<&Field>) =
            fields.iter().partition(|field| field.content.is_none());
        let mut read = self.0.start_all(&files).into_iter();
        let started = |field: &&Field| match field.content {
            Some(_) => self.start(field),
            // There is one for each.
            None => read.next().unwrap_or_else(|| self.0.start(field)),
        };
        fields.iter().map(started).collect()
    }

    fn adjoins(&self, field: &Field, next: &Field) -> bool {
        self.0.adjoins(field, next)
    }

    fn share_bytes(&self, field: &Field) -> u64 {
        self.0.share_bytes(field)
    }

    fn together_bytes(&self) -> u64 {
        self.0.together_bytes()
    }

    fn spare(&self, length: usize) -> Buffer {
        self.0.spare(length)
    }

    fn recycle(&self, buffer: Buffer) {
        self.0.recycle(buffer);
    }

    fn lend(&self, threads: usize) {
        self.0.lend(threads);
    }

    fn part(&self, field: &Field, offset: u64, length: u64) -> Pending<Buffer> {
        match &field.content {
            Some(content) => ready(content, offset, length),
            None => self.0.part(field, offset, length),
        }
    }

    fn started_bytes(&self, field: &Field) -> u64 {
        self.0.started_bytes(field)
    }

    fn requests_to_list(&self, files: u64) -> u64 {
        self.0.requests_to_list(files)
    }

    fn requests_to_read(&self, bytes: u64) -> u64 {
        self.0.requests_to_read(bytes)
    }

    fn reads(&self) -> usize {
        self.0.reads()
    }

    fn overhead_bytes(&self) -> u64 {
        self.0.overhead_bytes()
    }

    fn window_bytes(&self) -> u64 {
        self.0.window_bytes()
    }

    fn drop_cached(&self, field: &Field) -> Result<Option<Dropped>> {
        match field.content {
            Some(_) => Ok(None),
            None => self.0.drop_cached(field),
        }
    }
}

impl fmt::Display for WithContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
