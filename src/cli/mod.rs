//! What is typed and what is said.
//!
//! Arguments come in: [`flags`] are what the user typed, [`settings`] one checked value made of them, and a verb opens the stores and calls a
//! stage. Progress, messages, a summary and an exit code go out.

pub(crate) mod file;
pub(crate) mod flags;
pub(crate) mod pace;
pub(crate) mod progress;
pub(crate) mod run;
pub(crate) mod scheduler;
pub(crate) mod settings;
pub(crate) mod terminal;
pub(crate) mod verbs;
