//! What the seam stands on, by the names that it has in `src/base/`.

#[path = "../../src/base/buffer.rs"]
pub mod buffer;
#[path = "../../src/base/error.rs"]
pub mod error;
#[path = "../../src/base/reactor.rs"]
pub mod reactor;
#[path = "sync.rs"]
pub mod sync;

pub mod image {
    pub const TAIL_BYTES: usize = 8;
}

pub mod units {
    pub const STREAM_ABOVE_BYTES: u64 = 40;
}
