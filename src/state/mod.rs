//! state

pub mod published;
pub mod stored;
