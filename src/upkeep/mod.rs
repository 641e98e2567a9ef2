//! upkeep

pub mod adopt;
pub mod gc;
pub mod relist;
pub mod repair;
pub mod verify;
