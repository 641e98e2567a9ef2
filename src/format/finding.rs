//! One thing that is wrong with an object, or odd about it, with its place.

use std::fmt;

use serde::Serialize;

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// Object it was found in.
    pub object: String,
    /// Key of the sample, or what part of the object it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// Field of the sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// First and one past the last byte concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<[u64; 2]>,
    /// What is wrong.
    pub what: String,
    /// What should be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
}

impl Finding {
    /// A finding about an object.
    pub(crate) fn new(object: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            object: object.into(),
            sample: None,
            field: None,
            range: None,
            what: what.into(),
            expected: None,
            actual: None,
        }
    }

    /// In which sample.
    #[must_use]
    pub(crate) fn sample(mut self, key: impl Into<String>) -> Self {
        self.sample = Some(key.into());
        self
    }

    /// In which field.
    #[must_use]
    pub(crate) fn field(mut self, name: impl Into<String>) -> Self {
        self.field = Some(name.into());
        self
    }

    /// At which bytes.
    #[must_use]
    pub(crate) fn range(mut self, from: u64, to: u64) -> Self {
        self.range = Some([from, to]);
        self
    }

    /// What was expected and what is there.
    #[must_use]
    pub(crate) fn values(mut self, expected: impl ToString, actual: impl ToString) -> Self {
        self.expected = Some(expected.to_string());
        self.actual = Some(actual.to_string());
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.object)?;
        if let Some(sample) = &self.sample {
            write!(f, " sample `{sample}`")?;
            if let Some(field) = &self.field {
                write!(f, " field `{field}`")?;
            }
            f.write_str(":")?;
        }
        if let Some([from, to]) = self.range {
            write!(f, " bytes {from}..{to}:")?;
        }
        write!(f, " {}", self.what)?;
        if let (Some(expected), Some(actual)) = (&self.expected, &self.actual) {
            write!(f, ": expected {expected}, found {actual}")?;
        }
        Ok(())
    }
}
