//! A prefix of a bucket as a [`Source`] of samples.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::base::buffer::{Buffer, Buffers, allocated};
use crate::base::error::{Error, Result};
use crate::base::reactor::Pending;
use crate::base::units::STREAM_ABOVE_BYTES;
use crate::model::listing::Listing;
use crate::model::sample::{Field, FilePath, Version};
use crate::store::s3::connection::Connection;
use crate::store::s3::list::{page, tree};
use crate::store::s3::location::Location;
use crate::store::s3::read::{ACTION, Object, Span, read};
use crate::store::s3::spread::Start;
use crate::store::s3::trouble::RequestError;
use crate::store::{Access, Source};

/// Keys in one answer of a listing at most.
const PAGE_KEYS: u64 = 1000;

/// Memory of a read that waits for its place: its task, and the promise that it has given. A unit test measures it.
const STARTED_BYTES: u64 = 1536;
/// Read ahead of a large file: five parts of it are as fast as one connection, and more are not much faster.
const WINDOW_BYTES: u64 = 20 << 20;

/// A request for more gives no more bytes a second than several of this.
const TOGETHER_BYTES: u64 = 4 << 20;

/// An ImageFolder in a bucket.
pub(in crate::store) struct S3Source {
    connection: Arc<Connection>,
    location: Location,
    buffers: Arc<Buffers>,
}

impl S3Source {
    pub(in crate::store) fn open(location: &str, access: &Access) -> Result<Self> {
        let location = Location::parse(location)?;
        Ok(Self {
            connection: access.network.connection(access)?,
            location,
            buffers: Arc::new(Buffers::within(access.memory)),
        })
    }

    /// The object of a planned file; one that was planned elsewhere cannot be recognised here.
    fn object(&self, field: &Field) -> Result<Object> {
        let Version::ETag(tag) = &field.version else {
            return Err(Error::source_data(format!(
                "{} was planned from a file system, and {} is an object store: make a new plan",
                field.path, self.location
            )));
        };
        let path = field.path.as_str().ok_or_else(|| {
            Error::source_data(format!(
                "{} is no name for an object: it is not UTF-8",
                field.path
            ))
        })?;
        Ok(Object {
            location: self.location.clone(),
            key: self.location.key(path),
            tag: Some(tag.clone()),
        })
    }

    /// Reads a span of a planned file when its turn comes.
    fn reading(
        &self,
        field: &Field,
        span: Span,
    ) -> impl Future<Output = Result<Buffer>> + Send + use<> {
        let object = self.object(field);
        let (connection, buffers) = (Arc::clone(&self.connection), Arc::clone(&self.buffers));
        async move {
            let object = object?;
            let _place = connection.pace.place().await;
            // Boxed: thousands wait for their place, and the state of a request is large.
            let read = Box::pin(read(&connection, &object, span, &buffers)).await;
            read.map_err(|trouble| unplanned(&connection, &object, &trouble))
        }
    }
}

/// The error for a planned object that cannot be read. Never a skippable one: an outage must not look like a smaller dataset.
fn unplanned(connection: &Connection, object: &Object, trouble: &RequestError) -> Error {
    let name = object.location.object(&object.key);
    if trouble.is_condition() {
        return Error::source_data(format!(
            "{name} was written to after planning: the data changed, make a new plan"
        ));
    }
    if trouble.is_missing() {
        return Error::source_data(format!(
            "{name} vanished after planning: the data changed, make a new plan"
        ));
    }
    // What was planned was there.
    let error = connection.explain(&connection.call(ACTION, name), trouble);
    error.known_to_have_been_there(&object.location)
}

impl fmt::Display for S3Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.location.fmt(f)
    }
}

impl Source for S3Source {
    fn list(&self) -> Result<Listing> {
        let listing = self
            .connection
            .wait(tree(&self.connection, &self.location))?;
        if listing.files() == 0 && listing.hidden == 0 && listing.dirs.len() == 1 {
            return Err(Error::source_data(format!(
                "{}: there are no objects below this prefix: give the one that holds the images",
                self.location
            )));
        }
        Ok(listing)
    }

    fn start(&self, field: &Field) -> Pending<Buffer> {
        self.connection
            .start(self.reading(field, Span::Whole(Some(field.size))))
    }

    fn part(&self, field: &Field, offset: u64, length: u64) -> Pending<Buffer> {
        self.connection
            .start(self.reading(field, Span::Part(offset, length)))
    }

    fn started_bytes(&self, field: &Field) -> u64 {
        let tag = match &field.version {
            Version::ETag(tag) => tag.len(),
            Version::Mtime(_) | Version::Member(_) => 0,
        };
        let key = self.location.prefix.len() + field.path.as_bytes().len();
        let location = [&self.location.bucket, &self.location.prefix];
        STARTED_BYTES
            + location
                .map(|text| allocated(text.len()))
                .iter()
                .sum::<u64>()
            + allocated(key)
            + allocated(tag)
    }

    fn together_bytes(&self) -> u64 {
        TOGETHER_BYTES
    }

    fn spare(&self, length: usize) -> Buffer {
        self.buffers.take(length)
    }

    fn recycle(&self, buffer: Buffer) {
        self.buffers.give_back(buffer);
    }

    fn lend(&self, _threads: usize) {}

    fn requests_to_list(&self, files: u64) -> u64 {
        files.div_ceil(PAGE_KEYS).max(1)
    }

    fn requests_to_read(&self, bytes: u64) -> u64 {
        bytes.div_ceil(STREAM_ABOVE_BYTES).max(1)
    }

    fn reads(&self) -> usize {
        self.connection.reads
    }

    fn overhead_bytes(&self) -> u64 {
        self.connection.read_bytes()
    }

    fn window_bytes(&self) -> u64 {
        WINDOW_BYTES
    }

    fn look(&self, name: &FilePath) -> Result<Option<(u64, Version)>> {
        let Some(name) = name.as_str() else {
            return Ok(None);
        };
        let key = self.location.key(name);
        // Asked of a listing, like all that is planned: reading an object's head is another permission's matter.
        let page = page(
            &self.connection,
            &self.location,
            &key,
            None,
            Start::First,
            Some(1),
        );
        let page = self.connection.wait(page)?;
        let found = page.keys.into_iter().find(|found| found.name == key);
        Ok(found.map(|found| (found.size, Version::ETag(found.tag))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::reactor::promise;
    use crate::store::S3Options;
    use crate::store::s3::connection::keep;

    #[test]
    fn a_read_that_waits_for_its_place_takes_what_it_is_counted_with() {
        let access = Access {
            s3: S3Options {
                endpoint_url: Some("http://127.0.0.1:9".to_owned()),
                no_sign_request: true,
                region: Some("us-east-1".to_owned()),
                ..S3Options::default()
            },
            ..Access::default()
        };
        let source = S3Source::open("s3://bucket/images", &access).unwrap();
        let field = Field {
            name: "jpg".to_owned(),
            path: FilePath::below(b"c", b"a.jpg"),
            size: 10,
            version: Version::ETag("tag".to_owned()),
            content: None,
        };
        let (promise, pending) = promise();
        let task = keep(promise, source.reading(&field, Span::Whole(Some(10))));
        // The runtime's own words for a task, to the next cache line, and what both ends of a promise share.
        let around = 256 + size_of::<Result<Buffer>>() + 64;
        let bytes = (size_of_val(&task) + around) as u64;
        assert!(
            bytes <= STARTED_BYTES,
            "{bytes} bytes, counted as {STARTED_BYTES}"
        );
        assert!(
            bytes * 2 > STARTED_BYTES,
            "{bytes} bytes, counted as {STARTED_BYTES}"
        );
        drop((task, pending));
    }
}
