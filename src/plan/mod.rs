//! plan

pub mod budget;
pub mod draft;
