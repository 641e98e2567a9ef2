//! The versions of what is stored: what a later program wrote is refused, and left as it is.
//!
//! Looked at before anything else is decoded, because nobody knows what else a later form has changed. That is no damage: a repair would
//! put an older dataset in the place of a newer one, so this is an error of another kind, and nobody may take it for "cannot be read".

use serde::Deserialize;

use crate::base::error::{Error, Result};
use crate::base::text::show;

/// A form in which something is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// What people call it.
    pub what: &'static str,
    /// The version that this program writes; it reads no other.
    pub version: u64,
    /// Whether its version may stand in its `plan` instead.
    nested: bool,
}

/// Characters of another program's version that a message repeats.
const LONGEST: usize = 40;

/// `manifest.json` and every snapshot.
pub(crate) const MANIFEST: Form = Form {
    what: "manifest",
    version: 1,
    nested: false,
};
/// `plan.json`.
pub(crate) const PLAN: Form = Form {
    what: "plan",
    version: 1,
    nested: true,
};
/// A claim; the first version does not say its number.
pub(crate) const CLAIM: Form = Form {
    what: "claim",
    version: 1,
    nested: false,
};
/// The `shardpack` entry in the footer of a shard's index.
pub(crate) const RECORD: Form = Form {
    what: "record",
    version: 1,
    nested: false,
};
/// Where a verification of some shards left off; the first version does not say its number.
pub(crate) const CURSOR: Form = Form {
    what: "cursor",
    version: 1,
    nested: false,
};

/// What every version of every form says of itself, if it says so at all. All else of a later version is passed over.
#[derive(Debug, Default, Deserialize)]
struct Said {
    version: Option<u64>,
    /// The version of the program, in forms after the first.
    written_by: Option<String>,
}

/// A stored plan says it one level deeper.
#[derive(Debug, Default, Deserialize)]
struct Stored {
    plan: Said,
}

impl Form {
    /// Refuses JSON of a version that a later program wrote; `name` is for the message. Whatever else is wrong with it is not judged here.
    pub(crate) fn check(self, name: &str, json: &[u8]) -> Result<()> {
        let outer = serde_json::from_slice::<Said>(json).ok();
        let inner = match self.nested {
            true => serde_json::from_slice::<Stored>(json).ok(),
            false => None,
        };
        let said = [outer, inner.map(|stored| stored.plan)];
        for said in said.into_iter().flatten() {
            if let Some(version) = said.version.filter(|version| *version > self.version) {
                return Err(self.refusal(name, version, said.written_by.as_deref()));
            }
        }
        Ok(())
    }

    fn refusal(self, name: &str, version: u64, program: Option<&str>) -> Error {
        let Form {
            what,
            version: known,
            ..
        } = self;
        let program = match program.map(|program| show(program.as_bytes())) {
            Some(program) => {
                let short: String = program.chars().take(LONGEST).collect();
                format!("shardpack {short}")
            }
            None => "a later shardpack".to_owned(),
        };
        Error::failed(format!(
            "{name}: written by {program}, this is {}: {what} version {version}, this program knows {known}; \
             nothing was changed: use that program, or a newer one",
            env!("CARGO_PKG_VERSION")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Kind;

    #[test]
    fn a_later_version_is_refused_with_both_versions_and_is_no_damage() {
        for (form, text) in [
            (MANIFEST, r#"{"new":[{}],"kind":"x","version":2}"#),
            (PLAN, r#"{"id":"x","plan":{"version":2,"more":{"a":[]}}}"#),
            (PLAN, r#"{"version":2}"#),
            (RECORD, r#"{"version":2,"plan":"00"}"#),
            (CLAIM, r#"{"plan_id":7,"version":2}"#),
        ] {
            let error = form.check("s3://b/d/x.json", text.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), Kind::Failed);
            let words = format!(
                "s3://b/d/x.json: written by a later shardpack, this is {}: {} version 2, this program knows 1",
                env!("CARGO_PKG_VERSION"),
                form.what
            );
            assert!(error.to_string().starts_with(&words), "{error}");
        }
        let said = br#"{"version":3,"written_by":"0.9.1\u001b"}"#;
        let error = MANIFEST.check("m", said).unwrap_err().to_string();
        let words = "m: written by shardpack 0.9.1\\x1b, this is";
        assert!(error.starts_with(words), "{error}");
    }

    #[test]
    fn this_version_and_what_is_no_such_form_are_left_to_the_decoder() {
        for text in [
            r#"{"version":1}"#,
            r#"{"version":0}"#,
            r#"{"plan":"00"}"#,
            r#"{"version":"2"}"#,
            r#"{"version":-2}"#,
            "[",
            "7",
            "",
            r#"{"version":2"#,
        ] {
            MANIFEST.check("m", text.as_bytes()).unwrap();
        }
        let deep = format!(r#"{{"a":{}"#, "[".repeat(100_000));
        MANIFEST.check("m", deep.as_bytes()).unwrap();
    }
}
