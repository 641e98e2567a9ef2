//! What knows no dataset: errors and exit codes, sizes and numbers, checksums, buffers, the seam between threads, signals, headers of images.
//!
//! Every room stands on this one, which stands on none. What waits for work that runs elsewhere does so by
//! [`reactor`]; the locks and threads under it are those of `sync`, so that a checker's can take their place.

pub(crate) mod buffer;
pub(crate) mod checksum;
pub(crate) mod error;
pub(crate) mod image;
pub(crate) mod reactor;
pub(crate) mod signal;
pub(crate) mod sync;
pub(crate) mod text;
pub(crate) mod unique;
pub(crate) mod units;
