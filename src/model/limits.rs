//! What is too large for a layout, as values that a scan can look at.

/// What is too large for a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Largest content of any field in bytes, and why.
    pub field: (u64, &'static str),
    /// Largest content of a field besides the image in bytes, and why; at most that of any.
    pub sidecar: (u64, &'static str),
    /// Largest sum of a sample's contents in bytes, and why.
    pub sample: (u64, &'static str),
}

impl Limits {
    /// Only single fields can be too large, whatever they hold.
    pub(crate) fn of_fields(bytes: u64, why: &'static str) -> Self {
        Self {
            field: (bytes, why),
            sidecar: (bytes, why),
            sample: (u64::MAX, ""),
        }
    }

    /// Says why there is no place for a file of so many bytes, the image of its sample or another one; `None` where there is.
    pub(crate) fn refuse(&self, bytes: u64, image: bool) -> Option<String> {
        let (most, why) = match image {
            true => self.field,
            false => self.sidecar,
        };
        (bytes > most).then(|| format!("{bytes} bytes; {why}"))
    }

    /// The same for files that together have so many bytes, none of which is too large by itself.
    pub(crate) fn refuse_together(&self, bytes: u64) -> Option<String> {
        let (most, why) = self.sample;
        (bytes > most).then(|| format!("{bytes} bytes in all files of the sample; {why}"))
    }
}
