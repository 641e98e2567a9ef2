//! What is typed and what is said.
//!
//! Arguments come in: [`flags`] are what the user typed, [`settings`] one checked value made of them, and a verb opens the stores and calls a
//! stage. Progress, messages, a summary and an exit code go out.

pub mod file;
pub mod flags;
pub mod progress;
pub mod run;
pub mod scheduler;
pub mod settings;
pub mod verbs;
