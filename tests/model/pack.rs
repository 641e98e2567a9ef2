//! What reads ahead, by the names that it has in `src/pack/`.

#[path = "../../src/pack/lookahead.rs"]
pub mod lookahead;
#[path = "../../src/pack/together.rs"]
mod together;
