//! What knows no dataset: errors and exit codes, sizes and numbers, checksums, buffers, the seam between threads, signals, headers of images.

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
pub mod version;
