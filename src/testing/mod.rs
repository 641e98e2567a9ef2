//! Tests that need the insides of the library, and what they stand on.
//!
//! A store that fails, pauses or dies when it is asked to comes in; runs that end, go wrong, stand still and meet anywhere go over it.

#[cfg(test)]
mod crash;
#[cfg(test)]
mod faulty_store;
#[cfg_attr(
    test,
    expect(unreachable_pub, reason = "the programs of `make fuzz` call it")
)]
pub mod fuzz;
#[cfg(all(test, feature = "s3"))]
mod gets;
#[cfg(test)]
mod scale;
