//! Everything after a dataset was published: samples are found and read, it is verified, repaired, tidied up, and shards of others are adopted.
//!
//! A destination comes in with what it says of itself. Findings, repaired objects or removed leftovers go out.

pub(crate) mod adopt;
pub(crate) mod bench;
pub(crate) mod content;
pub(crate) mod copy;
pub(crate) mod duplicates;
pub(crate) mod find;
pub(crate) mod gc;
pub(crate) mod places;
pub(crate) mod relist;
pub(crate) mod repair;
pub(crate) mod verify;
