//! plan

pub mod budget;
pub mod draft;
pub mod worker;
