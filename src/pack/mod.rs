//! Claim, read ahead, pack, compress, digest, put, record: a plan's shards are made here.
//!
//! In come a stored plan and the numbers of the shards to make; out go shards and their records in the destination, and the account of what
//! was skipped or refused.

pub(crate) mod look;
pub(crate) mod lookahead;
pub(crate) mod pipeline;
mod policy;
pub(crate) mod run;
mod shard;
mod together;
mod worker;
