//! Everything after a dataset was published: samples are found and read, it is verified, repaired, tidied up, and shards of others are adopted.
//!
//! A destination comes in with what it says of itself. Findings, repaired objects or removed leftovers go out.

pub mod adopt;
pub mod content;
pub mod find;
pub mod gc;
pub mod relist;
pub mod repair;
pub mod verify;
