//! Writing: a shard is uploaded in parts while it is made; a small one, and every other object, in one request.
//!
//! Parts are in memory with a CRC-32 of our own. Their sums combine into that of the shard, which the server compares with what
//! it put together, where it can. Completing is ambiguous: an error may come although the object is there. Then the object is
//! looked at, its token, size and checksum, before anything else is tried; nothing is uploaded twice and nothing is removed.

mod assemble;
mod parts;
mod probe;
mod put;
mod shard;
mod upload;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::OnceCell;

use crate::store::s3::connection::Connection;
use crate::store::s3::location::Location;
use crate::store::s3::write::parts::Parts;

pub(super) use assemble::assemble;
pub(super) use parts::requests;
pub(super) use put::{How, Put};
pub(super) use shard::S3Shard;

/// The permission that writing needs.
pub(super) const ACTION: &str = "s3:PutObject";
/// The permission that giving up an upload needs.
pub(super) const ABORT_ACTION: &str = "s3:AbortMultipartUpload";
/// The permission that removing needs.
pub(super) const REMOVE_ACTION: &str = "s3:DeleteObject";

/// What the server does with checksums that are sent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checksums {
    /// It compares a whole multipart object with its CRC-32, and keeps that.
    Full,
    /// It takes a CRC-32 with each part.
    Parts,
    /// It refuses requests that have one.
    None,
}

/// What all writes to one destination share.
pub(super) struct Writes {
    connection: Arc<Connection>,
    location: Location,
    /// Beginning of the names of objects that only serve to learn what the server does.
    probe: &'static str,
    /// Found out by the first that needs to know.
    checksums: OnceCell<Checksums>,
    /// The server refused a request because of its checksum header.
    refuses_sums: AtomicBool,
    parts: Parts,
}

impl Writes {
    /// Writes below a location, with `memory` bytes for the whole run.
    pub(super) fn new(
        connection: Arc<Connection>,
        location: Location,
        memory: u64,
        probe: &'static str,
    ) -> Self {
        Self {
            connection,
            location,
            probe,
            checksums: OnceCell::new(),
            refuses_sums: AtomicBool::new(false),
            parts: Parts::within(memory),
        }
    }

    /// Memory that all shards being written take together.
    pub(super) fn held_bytes(&self) -> u64 {
        self.parts.held_bytes()
    }
}

/// Tells uploads apart; neither secret nor part of any content.
fn token() -> String {
    format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..))
}
