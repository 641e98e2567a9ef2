//! What a program calls instead of the command line: the same verbs, with values that come in and values that go out.
//!
//! A source, a destination and [`Options`] come in; what there is then, what is damaged or the bytes of a sample go out. Nothing here prints,
//! and nothing here decides: each calls the verb that the command line calls. `python/shardpack/` is what the wheel has beside the program.

mod conversion;
mod dataset;
mod options;
mod repair;
mod verification;

pub use conversion::{Conversion, Converted, SampleNote};
pub use dataset::{Dataset, Sample, Samples};
pub use options::Options;
pub use repair::Repair;
pub use verification::Verification;
