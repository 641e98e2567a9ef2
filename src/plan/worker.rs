//! Which of several workers one is.

/// One of several workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Worker {
    /// From 0.
    pub number: usize,
    /// How many there are, at least 1.
    pub of: usize,
}

impl Worker {
    /// The only worker.
    pub(crate) const ALONE: Self = Self { number: 0, of: 1 };
}

impl std::fmt::Display for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}
