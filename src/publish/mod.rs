//! publish

pub mod card;
pub mod commit;
pub mod companions;
pub mod layout;
pub mod readers;
