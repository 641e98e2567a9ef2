//! shardpack turns an ImageFolder tree into large sequential shards that training jobs stream, and proves that they are intact.
//!
//! ```text
//! list → scan → plan → claim → read ahead → pack → compress → digest → put → record → publish
//! ```
//!
//! Data moves left to right. Left of `claim` runs once and ends in a [`plan::Plan`]; `claim … record` runs on many threads and
//! workers, one thread owning one shard; `publish` runs once, from records alone.
//!
//! Imports go downwards only: [`run`] → [`command`] → [`settings`] → stages ([`pipeline`], [`publish`], [`beside`], [`growth`], [`gone`], [`verify`], [`resume`], [`repair`], [`relist`], [`gc`], [`foreign`], [`survey`]) → parts ([`store`],
//! [`format`], [`compress`], [`index`], [`lookahead`]) → values ([`recipe`], [`plan`], [`manifest`], [`record`], [`sample`], [`error`]). `docs/architecture.md` has
//! the map with a sentence for each module.

pub mod base;
pub mod cli;
pub mod format;
pub mod grow;
pub mod model;
pub mod pack;
pub mod plan;
pub mod publish;
pub mod report;
pub mod source;
pub mod state;
pub mod store;
pub mod upkeep;

#[cfg(test)]
#[path = "../tests/crash/mod.rs"]
mod crash;
#[cfg(test)]
#[path = "../fixtures/faulty_store/mod.rs"]
mod faulty_store;
