//! pack

pub mod lookahead;
pub mod pipeline;
