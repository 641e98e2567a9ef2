//! The protocol on the destination: stored plans, claims, what is done, and what is published.
//!
//! In come drafts of plans, and out come the plans that workers share and the records that say which of their shards are finished. Whatever
//! several workers must agree on is an object here, put if absent or put whole.

pub(crate) mod claims;
pub(crate) mod done;
pub(crate) mod names;
pub(crate) mod plans;
pub(crate) mod published;
pub(crate) mod refusals;
pub(crate) mod samples;
pub(crate) mod storing;
pub(crate) mod walks;
