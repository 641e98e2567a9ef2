//! state

pub mod stored;
