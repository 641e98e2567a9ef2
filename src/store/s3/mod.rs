//! S3 and what speaks like it, as source and sink.
//!
//! Listing, reading and writing have a file each; [`connection`] is the one place where requests are tried
//! again, [`pace`] says how many run at once, [`trouble`] what an error means. The client library is seen nowhere else.

mod client;
mod connection;
mod credentials;
mod link;
mod list;
mod pace;
mod proxy;
mod read;
mod tls;
mod trouble;
mod watch;
mod write;

use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;

pub use connection::{Network, S3Options};

use self::connection::Connection;
use self::read::{Ahead, Object, Ranges, Span};
use self::trouble::Trouble;
use self::write::{Put, Shard, Writes};
use super::{Access, Aged, Kept, Leftover, ShardWriter, Sink, Source};
use crate::base::buffer::{Buffer, Buffers, allocated};
use crate::base::error::{Error, Kind, Result};
use crate::base::reactor::Pending;
use crate::model::listing::Listing;
use crate::model::name::check_name;
use crate::model::sample::{Field, Version};

/// The beginning of every location here.
pub(super) const SCHEME: &str = "s3://";
/// Below this much one request is quicker than several.
const ONE_REQUEST_BYTES: u64 = 16 << 20;

/// Memory of a read that waits for its place: its task, and the promise that it has given. A unit test measures it.
const STARTED_BYTES: u64 = 1536;
/// Read ahead of a large file: five parts of it are as fast as one connection, and more are not much faster.
const WINDOW_BYTES: u64 = 20 << 20;

/// Small requests made at once by those who have many to make.
const REQUESTS: usize = 64;

/// A bucket and a prefix in it, with a slash at its end unless it is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Location {
    bucket: String,
    prefix: String,
}

impl Location {
    fn parse(location: &str) -> Result<Self> {
        let bad =
            |what: &str| Error::usage(format!("{location}: {what}: write s3://BUCKET/PREFIX"));
        let rest = location
            .strip_prefix(SCHEME)
            .ok_or_else(|| bad("not an S3 location"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-:".contains(&b);
        if bucket.is_empty() || !bucket.bytes().all(plain) {
            return Err(bad("no bucket of this name can exist"));
        }
        let prefix = prefix.trim_end_matches('/');
        if prefix.split('/').any(|part| part == "." || part == "..") || prefix.contains("//") {
            return Err(bad("`.`, `..` and empty directories have no meaning here"));
        }
        let slash = if prefix.is_empty() { "" } else { "/" };
        Ok(Self {
            bucket: bucket.to_owned(),
            prefix: format!("{prefix}{slash}"),
        })
    }

    /// The key of a name below the prefix.
    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A key as people write it.
    fn object(&self, key: &str) -> String {
        format!("{SCHEME}{}/{key}", self.bucket)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.bucket)?;
        match self.prefix.strip_suffix('/') {
            Some(prefix) => write!(f, "/{prefix}"),
            None => Ok(()),
        }
    }
}

/// An ImageFolder in a bucket.
pub(super) struct S3Source {
    connection: Arc<Connection>,
    location: Location,
    buffers: Arc<Buffers>,
}

impl S3Source {
    pub(super) fn open(location: &str, access: &Access) -> Result<Self> {
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
            let read = Box::pin(read::read(&connection, &object, span, &buffers)).await;
            read.map_err(|trouble| unplanned(&connection, &object, &trouble))
        }
    }
}

/// The error for a planned object that cannot be read. Never a skippable one: an outage must not look like a smaller dataset.
fn unplanned(connection: &Connection, object: &Object, trouble: &Trouble) -> Error {
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
    let error = connection.explain(&connection.call(read::ACTION, name), trouble);
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
            .wait(list::tree(&self.connection, &self.location))?;
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
            Version::Mtime(_) => 0,
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

    fn recycle(&self, buffer: Buffer) {
        self.buffers.give_back(buffer);
    }

    fn lend(&self, _threads: usize) {}

    fn reads(&self) -> usize {
        self.connection.reads
    }

    fn overhead_bytes(&self) -> u64 {
        self.connection.read_bytes()
    }

    fn window_bytes(&self) -> u64 {
        WINDOW_BYTES
    }
}

/// A dataset in a bucket.
pub(super) struct S3Sink {
    connection: Arc<Connection>,
    location: Location,
    writes: Arc<Writes>,
    /// The server was seen to refuse a conditional write, as it should.
    conditional: AtomicBool,
}

impl S3Sink {
    pub(super) fn open(location: &str, access: &Access) -> Result<Self> {
        let location = Location::parse(location)?;
        let connection = access.network.connection(access)?;
        let writes = Writes::new(Arc::clone(&connection), location.clone(), access.memory);
        Ok(Self {
            connection,
            location,
            writes: Arc::new(writes),
            conditional: AtomicBool::new(false),
        })
    }

    fn key(&self, name: &str) -> Result<String> {
        check_name(name)?;
        Ok(self.location.key(name))
    }

    fn object(&self, key: String, tag: Option<String>) -> Object {
        Object {
            location: self.location.clone(),
            key,
            tag,
        }
    }

    fn head(&self, name: &str) -> Result<Option<write::Head>> {
        let key = self.key(name)?;
        let head = self
            .connection
            .wait(write::head(&self.connection, &self.location, &key));
        head.map_err(|trouble| self.explain(read::ACTION, &key, &trouble))
    }

    fn explain(&self, action: &'static str, key: &str, trouble: &Trouble) -> Error {
        let call = self.connection.call(action, self.location.object(key));
        self.connection.explain(&call, trouble)
    }

    fn put_body(&self, key: &str, body: &[u8], absent: bool) -> Result<Put> {
        let body = Bytes::copy_from_slice(body);
        let put = self
            .connection
            .wait(self.writes.put(key, body, absent, false));
        put.map_err(|trouble| match absent && trouble.is_unknown_request() {
            true => self.unconditional(),
            false => self.explain(write::ACTION, key, &trouble),
        })
    }

    fn unconditional(&self) -> Error {
        Error::failed(format!(
            "{}: this server does not honour conditional writes (If-None-Match), so two writers could both publish: \
             use another server, or add `--unsafe-no-conditional-put` if there is one writer only",
            self.location
        ))
    }
}

impl fmt::Display for S3Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.location.fmt(f)
    }
}

impl Sink for S3Sink {
    fn create(&self, name: &str, bytes: u64) -> Result<Box<dyn ShardWriter>> {
        let shard = name.starts_with("data/");
        Ok(Box::new(Shard::new(
            &self.writes,
            self.key(name)?,
            shard,
            bytes,
        )))
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        let object = self.object(self.key(name)?, None);
        let buffers = Buffers::default();
        let read = read::read(&self.connection, &object, Span::Whole(None), &buffers);
        match self.connection.wait(read) {
            Ok(buffer) => Ok(Some(buffer.into())),
            Err(trouble) if trouble.is_missing() => Ok(None),
            Err(trouble) => Err(missing(&self.connection, &object, &trouble)),
        }
    }

    fn range(&self, name: &str, offset: u64, length: usize) -> Result<Bytes> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        let key = self.key(name)?;
        let short = |what: &str| {
            Error::new(
                Kind::Damage,
                format!(
                    "{self}/{name}: {length} bytes are wanted at {offset}, {what}: it was cut short"
                ),
            )
        };
        let length_bytes = length as u64;
        // The length may come from a damaged file: compare before reserving memory for it.
        if length_bytes > ONE_REQUEST_BYTES || offset.checked_add(length_bytes).is_none() {
            let size = self.head(name)?.map_or(0, |head| head.size);
            if offset
                .checked_add(length_bytes)
                .is_none_or(|end| end > size)
            {
                return Err(short(&format!("it has {size}")));
            }
        }
        let object = self.object(key, None);
        let span = Span::Part(offset, length_bytes);
        let buffers = Buffers::default();
        let read = read::read(&self.connection, &object, span, &buffers);
        match self.connection.wait(read) {
            Ok(buffer) => Ok(buffer.into()),
            Err(trouble) if trouble.status == read::PAST_END => Err(short("it has less")),
            Err(trouble) => Err(missing(&self.connection, &object, &trouble)),
        }
    }

    fn open(&self, name: &str) -> Result<Box<dyn Read + Send>> {
        let head = self
            .head(name)?
            .ok_or_else(|| Error::failed(format!("{self}/{name}: no such object")))?;
        let object = self.object(self.key(name)?, head.tag);
        Ok(Box::new(Ranges::new(
            &self.connection,
            object,
            head.size,
            Ahead::SHARD,
            missing,
        )))
    }

    fn put(&self, name: &str, body: &[u8]) -> Result<()> {
        self.put_body(&self.key(name)?, body, false).map(|_| ())
    }

    fn put_if_absent(&self, name: &str, body: &[u8]) -> Result<bool> {
        let key = self.key(name)?;
        if self.connection.options.no_conditional_put {
            if let Some(there) = self.get(name)? {
                return Ok(there == body);
            }
            self.put_body(&key, body, false)?;
            return Ok(true);
        }
        match self.put_body(&key, body, true)? {
            Put::Done => Ok(true),
            // Perhaps our own, its reply lost.
            Put::Exists => Ok(self.get(name)?.is_some_and(|there| there == body)),
        }
    }

    fn check_exclusive(&self, name: &str, body: &[u8]) -> Result<()> {
        let known = || self.conditional.load(Ordering::Relaxed);
        if self.connection.options.no_conditional_put || known() {
            return Ok(());
        }
        // Writing the same once more harms nobody and shows whether the server would have stopped a second writer.
        match self.put_body(&self.key(name)?, body, true)? {
            Put::Exists => {
                self.conditional.store(true, Ordering::Relaxed);
                Ok(())
            }
            Put::Done => Err(self.unconditional()),
        }
    }

    fn aged(&self, prefix: &str) -> Result<Vec<Aged>> {
        let prefix = match prefix {
            "" => self.location.prefix.clone(),
            prefix => format!("{}/", self.key(prefix)?),
        };
        let flat = list::flat(&self.connection, &self.location, &prefix);
        let keys = self.connection.wait(flat)?;
        let object = |key: list::Key| {
            let name = key.name.strip_prefix(&self.location.prefix)?;
            // Directory markers of other tools.
            (!name.is_empty() && !name.ends_with('/')).then(|| Aged {
                name: name.to_owned(),
                bytes: key.size,
                age: key.age,
            })
        };
        let mut found: Vec<_> = keys.into_iter().filter_map(object).collect();
        // S3 Express lists in no order.
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn remove(&self, name: &str) -> Result<()> {
        let key = self.key(name)?;
        let removed = self.connection.wait(self.writes.remove(&key));
        removed.map_err(|trouble| self.explain(write::REMOVE_ACTION, &key, &trouble))
    }

    fn sweep(&self) -> Result<u64> {
        // Nothing tells an upload of a dead run from one of a living; `gc` goes by age.
        Ok(0)
    }

    fn leftovers(&self) -> Result<Vec<Leftover>> {
        self.connection.wait(self.uploads())
    }

    fn discard(&self, leftover: &Leftover) -> Result<()> {
        let key = self.key(&leftover.name)?;
        let discarded = self
            .connection
            .wait(self.writes.discard(&key, &leftover.id));
        discarded.map_err(|trouble| self.explain(write::ABORT_ACTION, &key, &trouble))
    }

    fn check_apart(&self, source: &str) -> Result<()> {
        let Some(source) = source
            .starts_with(SCHEME)
            .then(|| Location::parse(source))
            .transpose()?
        else {
            return Ok(());
        };
        if source.bucket == self.location.bucket && self.location.prefix.starts_with(&source.prefix)
        {
            return Err(Error::usage(format!(
                "{self} lies in the source {source}: choose a destination outside it"
            )));
        }
        Ok(())
    }

    fn kept(&self, name: &str) -> Result<Kept> {
        Ok(match self.head(name)?.and_then(|head| head.crc32) {
            Some(crc32) => Kept::Crc32(crc32),
            None => Kept::Nothing,
        })
    }

    fn requests(&self) -> usize {
        REQUESTS
    }

    fn writing_bytes(&self) -> u64 {
        self.writes.held_bytes()
    }

    fn reading_bytes(&self) -> u64 {
        Ahead::SHARD.bytes()
    }
}

/// The error for an object of a dataset that cannot be read.
fn missing(connection: &Connection, object: &Object, trouble: &Trouble) -> Error {
    let name = object.location.object(&object.key);
    if trouble.is_condition() {
        return Error::failed(format!("{name} was replaced while it was read: run again"));
    }
    connection.explain(&connection.call(read::ACTION, name), trouble)
}

impl S3Sink {
    /// Multipart uploads below the prefix that nobody has completed.
    async fn uploads(&self) -> Result<Vec<Leftover>> {
        let call = self
            .connection
            .call("s3:ListBucketMultipartUploads", self.location.to_string());
        let mut found = Vec::new();
        let (mut key, mut id) = (None, None);
        loop {
            let answer = self.connection.attempt(&call, || async {
                let request = self
                    .connection
                    .client
                    .list_multipart_uploads()
                    .bucket(&self.location.bucket)
                    .prefix(&self.location.prefix)
                    .set_key_marker(key.clone())
                    .set_upload_id_marker(id.clone())
                    .set_request_payer(self.connection.payer());
                request.send().await.map_err(Trouble::from)
            });
            let page = match answer.await {
                Err(trouble) if trouble.is_unknown_request() => {
                    return Err(Error::failed(format!(
                        "{}: this server does not list multipart uploads: see its documentation for how it removes stale ones",
                        self.location
                    )));
                }
                answer => answer.map_err(|trouble| self.connection.explain(&call, &trouble))?,
            };
            for upload in page.uploads() {
                let (Some(key), Some(id)) = (upload.key(), upload.upload_id()) else {
                    continue;
                };
                let Some(name) = key.strip_prefix(&self.location.prefix) else {
                    continue;
                };
                let age = upload
                    .initiated()
                    .map_or(Duration::ZERO, |begun| self.connection.clock.since(begun));
                found.push(Leftover {
                    name: name.to_owned(),
                    what: "unfinished multipart upload",
                    bytes: None,
                    age,
                    id: id.to_owned(),
                    ours: false,
                });
            }
            let more = page.is_truncated() == Some(true);
            (key, id) = (
                page.next_key_marker().map(str::to_owned),
                page.next_upload_id_marker().map(str::to_owned),
            );
            if !more || key.is_none() {
                return Ok(found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::connection::keep;
    use super::*;
    use crate::base::reactor::promise;
    use crate::model::sample::FilePath;

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
