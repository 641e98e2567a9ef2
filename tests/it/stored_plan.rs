//! A stored plan as anybody may edit it: JSON whose members stay in their order, because its ids are checksums of that text.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::files;

/// The first members of a plan in their order; some are left out where they say nothing.
const PLAN: [&str; 8] = [
    "kind",
    "version",
    "generation",
    "base",
    "source",
    "stale",
    "numbers",
    "recipe",
];

/// A JSON value whose objects keep their order.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
    Other(Value),
}

impl From<Value> for Node {
    fn from(value: Value) -> Self {
        serde_json::from_value(value).unwrap()
    }
}

impl Node {
    /// What is at a path like `plan.shards.0.name`.
    pub(crate) fn at(&mut self, path: &str) -> &mut Node {
        path.split('.').fold(self, |node, part| {
            let found = match node {
                Node::Object(members) => members
                    .iter_mut()
                    .find(|(name, _)| name == part)
                    .map(|(_, value)| value),
                Node::Array(items) => items.get_mut(part.parse::<usize>().unwrap()),
                Node::Other(_) => None,
            };
            found.unwrap_or_else(|| panic!("no {part} in {path}"))
        })
    }

    /// Puts a value where there is one.
    pub(crate) fn set(&mut self, path: &str, value: impl Into<Value>) {
        *self.at(path) = value.into().into();
    }

    fn members(&mut self) -> &mut Vec<(String, Node)> {
        match self {
            Node::Object(members) => members,
            other => panic!("{other:?} is no object"),
        }
    }

    /// The items of an array.
    pub(crate) fn items(&mut self) -> &mut Vec<Node> {
        match self {
            Node::Array(items) => items,
            other => panic!("{other:?} is no array"),
        }
    }

    fn sha256(&self) -> String {
        let digest = Sha256::digest(serde_json::to_vec(self).unwrap());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Node::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
            Node::Array(items) => serializer.collect_seq(items),
            Node::Other(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Node::Object(members))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Node::Array(items))
            }

            fn visit_str<E>(self, text: &str) -> Result<Node, E> {
                Ok(Node::Other(json!(text)))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
                Ok(Node::Other(json!(number)))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
                Ok(Node::Other(json!(number)))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Node, E> {
                Ok(Node::Other(json!(number)))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
                Ok(Node::Other(json!(value)))
            }

            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Other(Value::Null))
            }
        }
        deserializer.deserialize_any(Form)
    }
}

/// The plan of a destination that has one.
pub(crate) struct StoredPlan {
    /// Its file.
    pub(crate) path: PathBuf,
    /// What is in that.
    pub(crate) root: Node,
}

impl StoredPlan {
    pub(crate) fn of(destination: &Path) -> Self {
        let path = files(&destination.join("_shardpack/plan"))
            .into_iter()
            .find(|file| file.ends_with("plan.json"))
            .unwrap();
        let root = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        Self { path, root }
    }

    /// Sets a member of the plan itself, there or not.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) {
        let members = self.root.at("plan").members();
        members.retain(|(known, _)| known != name);
        let order = |name: &str| PLAN.iter().position(|known| *known == name);
        let before = |known: &str| order(known).is_none_or(|at| at > order(name).unwrap());
        let at = members.iter().position(|(known, _)| before(known)).unwrap();
        members.insert(at, (name.to_owned(), value.into().into()));
    }

    /// The plan's text with an id and a digest that are right, stored under that id and claimed; gives its directory.
    pub(crate) fn claim(mut self, edit: impl FnOnce(String) -> String) -> PathBuf {
        let plan = self.root.at("plan").clone();
        let id = plan.sha256();
        let mut unversioned = plan;
        unversioned
            .members()
            .retain(|(name, _)| !["source", "stale"].contains(&name.as_str()));
        for shard in unversioned.at("shards").items() {
            shard.set("listing", "");
            shard.set("listing_bytes", 0);
        }
        self.root.set("id", id.as_str());
        self.root.set("digest", unversioned.sha256());
        let plans = self.path.parent().unwrap().parent().unwrap();
        let there = plans.join(&id);
        std::fs::rename(self.path.parent().unwrap(), &there).unwrap();
        let text = serde_json::to_string(&self.root).unwrap();
        std::fs::write(there.join("plan.json"), edit(text)).unwrap();
        let claim = json!({"kind": "shardpack-claim", "plan_id": id}).to_string();
        let claims = plans.parent().unwrap().join("claims");
        std::fs::write(claims.join("00000001.json"), claim).unwrap();
        there
    }
}
