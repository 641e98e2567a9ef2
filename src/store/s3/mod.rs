//! S3 and what speaks like it, as source and sink.
//!
//! Locations come in, and requests go out: listing, reading and writing have a file each. [`connection`] is the one place where requests
//! are tried again, [`pace`] says how many run at once, [`hedge`] which are made twice, [`trouble`] what an error means and [`explain`] how
//! it is told. Objects are got in [`get`], and everything else by the client library, which is seen nowhere outside of this folder.

mod ahead;
mod client;
mod connection;
mod crc;
mod credentials;
mod explain;
mod flow;
mod get;
mod head;
mod hedge;
mod link;
mod list;
mod location;
mod message;
mod pace;
mod proxy;
mod read;
mod sink;
mod source;
mod spread;
mod tls;
mod trouble;
mod unfinished;
mod watch;
mod write;

pub(crate) use connection::Network;

pub(super) use sink::S3Sink;
pub(super) use source::S3Source;
