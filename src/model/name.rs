//! The name of an object of a dataset, which cannot lead out of it, and which no terminal acts on.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Kind, Result};
use crate::base::text::show;

/// Directory of the shards that this program cuts.
pub(crate) const SHARD_DIR: &str = "data";
/// Directory of their records.
pub(crate) const RECORD_DIR: &str = "index";

/// A relative, `/`-separated name below a destination: no part of it is empty, `.` or `..`, and it has no control characters. Manifests, plans
/// and records are not believed: what they name is read into this.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectName(String);

impl ObjectName {
    /// The name, if it is one.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        check_name(&name)?;
        Ok(Self(name))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Refuses what is no [`ObjectName`].
pub(crate) fn check_name(name: &str) -> Result<()> {
    let ok = !name.is_empty()
        && !name.chars().any(char::is_control)
        && name
            .split('/')
            .all(|part| !part.is_empty() && part != "." && part != "..");
    match ok {
        true => Ok(()),
        false => Err(Error::new(
            Kind::Damage,
            format!(
                "`{}` is no name for an object of a dataset",
                show(name.as_bytes())
            ),
        )),
    }
}

impl TryFrom<String> for ObjectName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::new(name).map_err(|error| error.to_string())
    }
}

impl From<ObjectName> for String {
    fn from(name: ObjectName) -> Self {
        name.0
    }
}

impl From<&ObjectName> for String {
    fn from(name: &ObjectName) -> Self {
        name.0.clone()
    }
}

impl Deref for ObjectName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ObjectName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for ObjectName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PartialEq<str> for ObjectName {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for ObjectName {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl PartialEq<String> for ObjectName {
    fn eq(&self, other: &String) -> bool {
        self.0 == *other
    }
}

impl PartialEq<ObjectName> for String {
    fn eq(&self, other: &ObjectName) -> bool {
        *self == other.0
    }
}

impl PartialEq<ObjectName> for str {
    fn eq(&self, other: &ObjectName) -> bool {
        *self == other.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEADING_OUT: [&str; 10] = [
        "",
        "/etc/passwd",
        "a/../b",
        "..",
        "a//b",
        "./a",
        "a/",
        "a\0b",
        "a\nb",
        "\u{1b}[2J",
    ];

    #[test]
    fn names_that_leave_the_root_are_refused_wherever_they_are_read() {
        for name in LEADING_OUT {
            assert_eq!(
                ObjectName::new(name).unwrap_err().kind(),
                Kind::Damage,
                "{name:?}"
            );
            let json = serde_json::to_string(name).unwrap();
            assert!(
                serde_json::from_str::<ObjectName>(&json).is_err(),
                "{name:?}"
            );
        }
        let name: ObjectName = serde_json::from_str(r#""data/train-00000.tar""#).unwrap();
        assert_eq!(name, "data/train-00000.tar");
        assert_eq!(
            serde_json::to_string(&name).unwrap(),
            r#""data/train-00000.tar""#
        );
    }

    #[test]
    fn names_that_leave_the_root_are_refused() {
        for name in LEADING_OUT {
            assert!(check_name(name).is_err(), "{name}");
        }
        check_name("data/train-00000.tar").unwrap();
    }
}
