//! A dataset in a bucket, as a [`Sink`].

use std::fmt;
use std::io::{BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use crate::base::buffer::Buffers;
use crate::base::error::{Error, Kind, Result};
use crate::model::name::check_name;
use crate::store::S3_SCHEME;
use crate::store::s3::ahead::{Ahead, AheadReader};
use crate::store::s3::connection::Connection;
use crate::store::s3::flow::FlowReader;
use crate::store::s3::head::{Head, head};
use crate::store::s3::list::{Key, flat};
use crate::store::s3::location::Location;
use crate::store::s3::read::{self, Object, PAST_END, Span, read};
use crate::store::s3::trouble::RequestError;
use crate::store::s3::unfinished::unfinished_uploads;
use crate::store::s3::write::{self, How, Put, S3Shard, Writes};
use crate::store::{
    Access, Assembled, Leftover, ObjectMeta, Piece, ShardWriter, Sink, StoredChecksum,
};

/// Below this much one request is quicker than several.
const ONE_REQUEST_BYTES: u64 = 16 << 20;
/// Small requests made at once by those who have many to make.
const REQUESTS: usize = 64;

/// A small object, over what is there.
const OVER: How = How {
    only_if_absent: false,
    in_storage_class: false,
};
/// A small object, if nothing has its name.
const IF_ABSENT: How = How {
    only_if_absent: true,
    ..OVER
};

/// A dataset in a bucket.
pub(in crate::store) struct S3Sink {
    connection: Arc<Connection>,
    location: Location,
    writes: Arc<Writes>,
    /// Beginning of the names that get the storage class which was asked for.
    in_storage_class: &'static str,
    /// The server was seen to refuse a conditional write, as it should.
    conditional: AtomicBool,
}

impl S3Sink {
    pub(in crate::store) fn open(location: &str, access: &Access) -> Result<Self> {
        let location = Location::parse(location)?;
        let connection = access.network.connection(access)?;
        let writes = Writes::new(
            Arc::clone(&connection),
            location.clone(),
            access.memory,
            access.layout.probe,
        );
        Ok(Self {
            connection,
            location,
            writes: Arc::new(writes),
            in_storage_class: access.layout.in_storage_class,
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

    fn head(&self, name: &str) -> Result<Option<Head>> {
        let key = self.key(name)?;
        let head = self
            .connection
            .wait(head(&self.connection, &self.location, &key));
        head.map_err(|trouble| self.explain(read::ACTION, &key, &trouble))
    }

    fn explain(&self, action: &'static str, key: &str, trouble: &RequestError) -> Error {
        let call = self.connection.call(action, self.location.object(key));
        self.connection.explain(&call, trouble)
    }

    fn put_body(&self, key: &str, body: &[u8], how: How) -> Result<Put> {
        let body = Bytes::copy_from_slice(body);
        let put = self.connection.wait(self.writes.put(key, body, how));
        put.map_err(
            |trouble| match how.only_if_absent && trouble.is_unknown_request() {
                true => self.unconditional(),
                false => self.explain(write::ACTION, key, &trouble),
            },
        )
    }

    fn unconditional(&self) -> Error {
        Error::failed(format!(
            "{}: this server does not honour conditional writes (If-None-Match), so two writers could both publish: \
             use another server, or add `--unsafe-no-conditional-put` if there is one writer only",
            self.location
        ))
    }
}

/// The error for an object of a dataset that cannot be read.
fn missing(connection: &Connection, object: &Object, trouble: &RequestError) -> Error {
    let name = object.location.object(&object.key);
    if trouble.is_condition() {
        return Error::failed(format!("{name} was replaced while it was read: run again"));
    }
    connection.explain(&connection.call(read::ACTION, name), trouble)
}

impl fmt::Display for S3Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.location.fmt(f)
    }
}

impl Sink for S3Sink {
    fn create(&self, name: &str, bytes: u64) -> Result<Box<dyn ShardWriter>> {
        let key = self.key(name)?;
        let in_storage_class = name.starts_with(self.in_storage_class);
        let shard = S3Shard::new(&self.writes, key, in_storage_class, bytes);
        Ok(Box::new(shard))
    }

    fn may_assemble(&self, location: &str) -> bool {
        // A process has one connection: whatever it reaches in S3 is there.
        location.starts_with(S3_SCHEME)
    }

    fn assemble(&self, name: &str, pieces: &[Piece<'_>], crc32: u32) -> Result<Assembled> {
        let key = self.key(name)?;
        let in_storage_class = name.starts_with(self.in_storage_class);
        write::assemble(&self.writes, &key, in_storage_class, pieces, crc32)
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>> {
        let object = self.object(self.key(name)?, None);
        let buffers = Buffers::default();
        let read = read(&self.connection, &object, Span::Whole(None), &buffers);
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
        let read = read(&self.connection, &object, span, &buffers);
        match self.connection.wait(read) {
            Ok(buffer) => Ok(buffer.into()),
            Err(trouble) if trouble.status == PAST_END => Err(short("it has less")),
            Err(trouble) => Err(missing(&self.connection, &object, &trouble)),
        }
    }

    fn open(&self, name: &str) -> Result<Box<dyn BufRead + Send>> {
        let head = self
            .head(name)?
            .ok_or_else(|| Error::failed(format!("{self}/{name}: no such object")))?;
        let object = self.object(self.key(name)?, head.tag);
        Ok(Box::new(AheadReader::new(
            &self.connection,
            object,
            head.size,
            Ahead::SHARD,
            missing,
        )))
    }

    fn stream(&self, name: &str, bytes: u64) -> Result<Box<dyn Read + Send>> {
        let object = self.object(self.key(name)?, None);
        let flow = FlowReader::new(&self.connection, object, bytes, missing);
        Ok(Box::new(flow))
    }

    fn put(&self, name: &str, body: &[u8]) -> Result<()> {
        self.put_body(&self.key(name)?, body, OVER).map(|_| ())
    }

    fn put_if_absent(&self, name: &str, body: &[u8]) -> Result<bool> {
        let key = self.key(name)?;
        if self.connection.options.no_conditional_put {
            if let Some(there) = self.get(name)? {
                return Ok(there == body);
            }
            self.put_body(&key, body, OVER)?;
            return Ok(true);
        }
        match self.put_body(&key, body, IF_ABSENT)? {
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
        match self.put_body(&self.key(name)?, body, IF_ABSENT)? {
            Put::Exists => {
                self.conditional.store(true, Ordering::Relaxed);
                Ok(())
            }
            Put::Done => Err(self.unconditional()),
        }
    }

    fn list_with_ages(&self, prefix: &str) -> Result<Vec<ObjectMeta>> {
        let prefix = match prefix {
            "" => self.location.prefix.clone(),
            prefix => format!("{}/", self.key(prefix)?),
        };
        let flat = flat(&self.connection, &self.location, &prefix);
        let keys = self.connection.wait(flat)?;
        let object = |key: Key| {
            let name = key.name.strip_prefix(&self.location.prefix)?;
            // Directory markers of other tools.
            (!name.is_empty() && !name.ends_with('/')).then(|| ObjectMeta {
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
        let uploads = unfinished_uploads(&self.connection, &self.location);
        self.connection.wait(uploads)
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
            .starts_with(S3_SCHEME)
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

    fn stored_checksum(&self, name: &str) -> Result<StoredChecksum> {
        Ok(match self.head(name)?.and_then(|head| head.crc32) {
            Some(crc32) => StoredChecksum::Crc32(crc32),
            None => StoredChecksum::Unknown,
        })
    }

    fn requests_to_write(&self, bytes: u64) -> u64 {
        write::requests(bytes)
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
