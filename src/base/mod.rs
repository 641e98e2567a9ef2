//! What knows no dataset: errors and exit codes, sizes and numbers, checksums, buffers, the seam between threads, signals, headers of images.
//!
//! Every room stands on this one, which stands on none. What waits for work that runs elsewhere does so by
//! [`reactor`]; the locks and threads under it are those of `sync`, so that a checker's can take their place.

pub mod buffer;
pub mod checksum;
pub mod error;
pub mod image;
pub mod reactor;
pub mod signal;
pub(crate) mod sync;
pub mod text;
pub mod unique;
pub mod units;
