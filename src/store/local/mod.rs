//! The local file system as source and sink: paths in, checked bytes and durable files out.
//!
//! Reading: opens are deep when they are slow and inline when they are not (see [`crate::base::reactor`]); every file is checked
//! against its planned size and time after its last byte. Writing: temporary name, write, fsync, rename, fsync of the directory.

mod cached;
mod destination;
mod leftovers;
mod list;
mod look;
mod paths;
mod read;
mod shard;
mod sink;
mod source;
mod steps;
mod temporary;

pub(super) use sink::LocalSink;
pub(super) use source::LocalSource;
#[cfg(test)]
pub(crate) use steps::{Step, Steps};
