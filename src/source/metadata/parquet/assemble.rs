//! Puts nested values together from the columns they are spread over.
//!
//! Source: Apache Parquet `LogicalTypes.md`, the rules for lists and maps with those for what old writers made.

use parquet::basic::{ConvertedType, LogicalType, Repetition};
use parquet::schema::types::{SchemaDescriptor, Type};
use serde_json::{Map, Value};

use crate::source::metadata::parquet::leaf::{Described, Leaf, TOO_MUCH};

/// What a value takes at least in a row's text.
const LEAST_BYTES: usize = 4;
/// What named values take besides: an object is much larger in memory than in text.
const OBJECT_BYTES: usize = 64;

/// A value of a row, with the levels that say whether it is there.
pub(super) enum Node {
    /// A plain value: the number of its column.
    Plain(usize),
    /// Named values; the first and the last column below it.
    Group {
        fields: Vec<(String, Node)>,
        columns: (usize, usize),
    },
    /// A value that may be null: it is there from this definition level on.
    Optional { inner: Box<Node>, defined: i16 },
    /// Values in a row: the first is there from this definition level on, and others follow at this repetition level.
    List {
        inner: Box<Node>,
        defined: i16,
        repeated: i16,
    },
    /// A list of keys with values.
    Map(Box<Node>),
}

/// How deep a node is.
#[derive(Clone, Copy)]
struct Levels {
    defined: i16,
    repeated: i16,
}

/// The columns of a table.
pub(super) struct Columns {
    /// By their names.
    pub(super) named: Vec<(String, Node)>,
    /// The plain columns below them.
    pub(super) plain: Vec<Described>,
}

impl Node {
    /// The columns of a table by their names, and the plain columns below them.
    pub(super) fn columns(schema: &SchemaDescriptor) -> Result<Columns, String> {
        let leaves = schema.columns().iter();
        let leaves = leaves
            .map(|column| Described::new(column))
            .collect::<Result<Vec<_>, _>>()?;
        let mut next = 0;
        let levels = Levels {
            defined: 0,
            repeated: 0,
        };
        let fields = schema.root_schema().get_fields().iter();
        let columns = fields.map(|field| {
            let node = Self::new(field, levels, &mut next);
            Ok((field.name().to_owned(), node?))
        });
        Ok(Columns {
            named: columns.collect::<Result<_, String>>()?,
            plain: leaves,
        })
    }

    /// A field with what says whether it is there.
    fn new(field: &Type, levels: Levels, next: &mut usize) -> Result<Self, String> {
        let Levels { defined, repeated } = levels;
        let deeper = Levels {
            defined: defined + 1,
            repeated,
        };
        Ok(match field.get_basic_info().repetition() {
            Repetition::REQUIRED => Self::inner(field, levels, next)?,
            Repetition::OPTIONAL => Self::Optional {
                inner: Box::new(Self::inner(field, deeper, next)?),
                defined: defined + 1,
            },
            Repetition::REPEATED => {
                let deeper = Levels {
                    repeated: repeated + 1,
                    ..deeper
                };
                Self::List {
                    inner: Box::new(Self::inner(field, deeper, next)?),
                    defined: defined + 1,
                    repeated: repeated + 1,
                }
            }
        })
    }

    /// A field that is there.
    fn inner(field: &Type, levels: Levels, next: &mut usize) -> Result<Self, String> {
        if field.is_primitive() {
            *next += 1;
            return Ok(Self::Plain(*next - 1));
        }
        let info = field.get_basic_info();
        let (logical, converted) = (info.logical_type_ref(), info.converted_type());
        let fields = field.get_fields();
        let is_list = logical == Some(&LogicalType::List) || converted == ConvertedType::LIST;
        let is_map = logical == Some(&LogicalType::Map)
            || matches!(converted, ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE);
        let repeated = fields.first().filter(|first| {
            fields.len() == 1 && first.get_basic_info().repetition() == Repetition::REPEATED
        });
        if let Some(entry) = repeated.filter(|_| is_list) {
            // Old writers repeat the element itself.
            let is_element = entry.is_primitive()
                || entry.get_fields().len() != 1
                || entry.name() == "array"
                || entry.name() == format!("{}_tuple", field.name());
            let list = Self::new(entry, levels, next)?;
            return Ok(match list {
                Self::List {
                    inner,
                    defined,
                    repeated,
                } if !is_element => Self::List {
                    inner: Box::new(inner.only_field()),
                    defined,
                    repeated,
                },
                list => list,
            });
        }
        if let Some(entry) = repeated.filter(|_| is_map)
            && entry.is_group()
            && entry.get_fields().len() == 2
        {
            return Ok(Self::Map(Box::new(Self::new(entry, levels, next)?)));
        }
        let first = *next;
        let made = fields.iter().map(|field| {
            let node = Self::new(field, levels, next);
            Ok((field.name().to_owned(), node?))
        });
        let fields = made.collect::<Result<Vec<_>, String>>()?;
        match *next > first {
            true => Ok(Self::Group {
                fields,
                columns: (first, *next),
            }),
            false => Err("a column has nothing within: leave it out".to_owned()),
        }
    }

    /// The one field of a group that only says that its list has such elements.
    fn only_field(self) -> Self {
        match self {
            Self::Group { mut fields, .. } if fields.len() == 1 => {
                fields.pop().map_or(Self::Plain(0), |(_, node)| node)
            }
            other => other,
        }
    }

    /// The first plain column below, and the one after the last.
    fn leaves(&self) -> (usize, usize) {
        match self {
            Self::Plain(column) => (*column, *column + 1),
            Self::Group { columns, .. } => *columns,
            Self::Optional { inner, .. } | Self::List { inner, .. } | Self::Map(inner) => {
                inner.leaves()
            }
        }
    }

    /// Passes over a value that is not there.
    fn skip(&self, leaves: &mut [Leaf<'_>]) {
        let (first, end) = self.leaves();
        leaves[first..end].iter_mut().for_each(Leaf::skip);
    }

    /// The next value; its bytes are taken from `left`.
    pub(super) fn value(&self, leaves: &mut [Leaf<'_>], left: &mut usize) -> Result<Value, String> {
        *left = left.checked_sub(LEAST_BYTES).ok_or(TOO_MUCH)?;
        let levels = |leaves: &[Leaf<'_>]| leaves[self.leaves().0].levels();
        match self {
            Self::Plain(column) => leaves[*column].value(left),
            Self::Group { fields, .. } => {
                *left = left.checked_sub(OBJECT_BYTES).ok_or(TOO_MUCH)?;
                let mut values = Map::new();
                for (name, node) in fields {
                    *left = left.checked_sub(name.len()).ok_or(TOO_MUCH)?;
                    values.insert(name.clone(), node.value(leaves, left)?);
                }
                Ok(Value::Object(values))
            }
            Self::Optional { inner, defined } => match levels(leaves) {
                Some((is, _)) if is >= *defined => inner.value(leaves, left),
                Some(_) => {
                    self.skip(leaves);
                    Ok(Value::Null)
                }
                None => Err("its values end too early".to_owned()),
            },
            Self::List {
                inner,
                defined,
                repeated,
            } => {
                let mut values = Vec::new();
                match levels(leaves) {
                    Some((is, _)) if is >= *defined => values.push(inner.value(leaves, left)?),
                    Some(_) => self.skip(leaves),
                    None => return Err("its values end too early".to_owned()),
                }
                while !values.is_empty()
                    && levels(leaves).is_some_and(|(_, follows)| follows >= *repeated)
                {
                    values.push(inner.value(leaves, left)?);
                }
                Ok(Value::Array(values))
            }
            Self::Map(entries) => entries.value(leaves, left).map(by_key),
        }
    }
}

/// A list of keys with values as an object; keys that are no text as they are written.
fn by_key(entries: Value) -> Value {
    let Value::Array(entries) = entries else {
        return entries;
    };
    let entry = |entry: Value| {
        let Value::Object(fields) = entry else {
            return None;
        };
        let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
        // Fields of an object are sorted: `key` stands before `value`, which every writer calls them.
        let value = fields.pop()?.1;
        let key = match fields.pop()?.1 {
            Value::String(key) => key,
            key => key.to_string(),
        };
        Some((key, value))
    };
    Value::Object(entries.into_iter().filter_map(entry).collect())
}
