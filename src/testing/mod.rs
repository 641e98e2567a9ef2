//! Tests that need the insides of the library, and what they stand on.
//!
//! A store that fails, pauses or dies when it is asked to comes in; runs that end, go wrong, stand still and meet anywhere go over it.

mod crash;
mod faulty_store;
