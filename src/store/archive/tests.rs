//! The contract of a source, for archives.
