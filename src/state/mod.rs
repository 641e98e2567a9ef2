//! The protocol on the destination: stored plans, claims, what is done, and what is published.
//!
//! In come drafts of plans, and out come the plans that workers share and the records that say which of their shards are finished. Whatever
//! several workers must agree on is an object here, put if absent or put whole.

pub mod claims;
pub mod done;
pub mod names;
pub mod plans;
pub mod published;
pub mod refusals;
pub mod samples;
pub mod storing;
pub(crate) mod walks;
