//! A column of plain values: some rows of it at a time, and each value as JSON.

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray};
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescriptor;
use serde_json::Value;

/// What is said of a row that is too large.
pub(super) const TOO_MUCH: &str = "more than 4 MiB are known of one image: leave columns out";

/// What the values of a column mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// What they are.
    Plain,
    /// Numbers without a sign.
    Unsigned,
    /// Days since 1970.
    Date,
    /// So many parts of a second since 1970.
    Time {
        parts: i64,
        digits: usize,
        /// What follows the time: `Z` where it is that of Greenwich, nothing where nobody says.
        zone: &'static str,
    },
    /// Whole numbers with so many digits after the point.
    Decimal { scale: usize },
}

/// What is known of a column before a row group of it is read.
#[derive(Debug)]
pub(super) struct Described {
    meaning: Meaning,
    /// The definition level of a value that is there.
    max_defined: i16,
}

impl Described {
    /// What the values of a column are, or why they are not read.
    pub(super) fn new(column: &ColumnDescriptor) -> Result<Self, String> {
        let time = |parts, digits, zone| Meaning::Time {
            parts,
            digits,
            zone,
        };
        let meaning = match (column.physical_type(), column.logical_type_ref()) {
            (Type::INT64, Some(LogicalType::Timestamp(stamp))) => {
                let zone = if stamp.is_adjusted_to_u_t_c { "Z" } else { "" };
                Some(match stamp.unit {
                    TimeUnit::MILLIS => time(1_000, 3, zone),
                    TimeUnit::MICROS => time(1_000_000, 6, zone),
                    TimeUnit::NANOS => time(1_000_000_000, 9, zone),
                })
            }
            (_, Some(LogicalType::Time(_) | LogicalType::Uuid | LogicalType::Float16)) => None,
            (Type::INT96, _) => None,
            (physical, _) => match (physical, column.converted_type()) {
                (Type::INT64, ConvertedType::TIMESTAMP_MILLIS) => Some(time(1_000, 3, "Z")),
                (Type::INT64, ConvertedType::TIMESTAMP_MICROS) => Some(time(1_000_000, 6, "Z")),
                (Type::INT32, ConvertedType::DATE) => Some(Meaning::Date),
                (
                    Type::INT32 | Type::INT64,
                    ConvertedType::UINT_8
                    | ConvertedType::UINT_16
                    | ConvertedType::UINT_32
                    | ConvertedType::UINT_64,
                ) => Some(Meaning::Unsigned),
                (
                    Type::INT32 | Type::INT64 | Type::FIXED_LEN_BYTE_ARRAY,
                    ConvertedType::DECIMAL,
                ) => Some(Meaning::Decimal {
                    scale: usize::try_from(column.type_scale()).unwrap_or(0),
                }),
                (_, ConvertedType::TIME_MILLIS | ConvertedType::TIME_MICROS)
                | (Type::FIXED_LEN_BYTE_ARRAY, _)
                | (Type::BYTE_ARRAY, ConvertedType::DECIMAL | ConvertedType::BSON) => None,
                _ => Some(Meaning::Plain),
            },
        };
        match meaning {
            Some(meaning) => Ok(Self {
                meaning,
                max_defined: column.max_def_level(),
            }),
            None => Err(format!(
                "column `{}` is of a type that is not read: save it as text, or leave it out",
                crate::base::text::show(column.path().string().as_bytes())
            )),
        }
    }
}

enum Cells {
    Bools(ColumnReaderImpl<parquet::data_type::BoolType>, Vec<bool>),
    Ints(ColumnReaderImpl<parquet::data_type::Int32Type>, Vec<i32>),
    Longs(ColumnReaderImpl<parquet::data_type::Int64Type>, Vec<i64>),
    Floats(ColumnReaderImpl<parquet::data_type::FloatType>, Vec<f32>),
    Doubles(ColumnReaderImpl<parquet::data_type::DoubleType>, Vec<f64>),
    Bytes(
        ColumnReaderImpl<parquet::data_type::ByteArrayType>,
        Vec<ByteArray>,
    ),
    Fixed(
        ColumnReaderImpl<parquet::data_type::FixedLenByteArrayType>,
        Vec<FixedLenByteArray>,
    ),
    Unread,
}

/// Some rows of a column, and where in them the reader is.
pub(super) struct Leaf<'d> {
    described: &'d Described,
    cells: Cells,
    defined: Vec<i16>,
    repeated: Vec<i16>,
    at: usize,
    at_value: usize,
}

impl<'d> Leaf<'d> {
    /// Reads a column of a row group.
    pub(super) fn new(described: &'d Described, reader: ColumnReader) -> Self {
        let cells = match reader {
            ColumnReader::BoolColumnReader(reader) => Cells::Bools(reader, Vec::new()),
            ColumnReader::Int32ColumnReader(reader) => Cells::Ints(reader, Vec::new()),
            ColumnReader::Int64ColumnReader(reader) => Cells::Longs(reader, Vec::new()),
            ColumnReader::FloatColumnReader(reader) => Cells::Floats(reader, Vec::new()),
            ColumnReader::DoubleColumnReader(reader) => Cells::Doubles(reader, Vec::new()),
            ColumnReader::ByteArrayColumnReader(reader) => Cells::Bytes(reader, Vec::new()),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => Cells::Fixed(reader, Vec::new()),
            ColumnReader::Int96ColumnReader(_) => Cells::Unread,
        };
        Self {
            described,
            cells,
            defined: Vec::new(),
            repeated: Vec::new(),
            at: 0,
            at_value: 0,
        }
    }

    /// Reads the next rows, and says how many there are.
    pub(super) fn fill(&mut self, rows: usize) -> Result<usize, ParquetError> {
        (self.at, self.at_value) = (0, 0);
        let levels = (&mut self.defined, &mut self.repeated);
        match &mut self.cells {
            Cells::Bools(reader, values) => read(reader, values, levels, rows),
            Cells::Ints(reader, values) => read(reader, values, levels, rows),
            Cells::Longs(reader, values) => read(reader, values, levels, rows),
            Cells::Floats(reader, values) => read(reader, values, levels, rows),
            Cells::Doubles(reader, values) => read(reader, values, levels, rows),
            Cells::Bytes(reader, values) => read(reader, values, levels, rows),
            Cells::Fixed(reader, values) => read(reader, values, levels, rows),
            Cells::Unread => Ok(0),
        }
    }

    /// The levels of the next value: how much of its path is there, and which list it goes on with; `None` at the end.
    pub(super) fn levels(&self) -> Option<(i16, i16)> {
        let is_flat = self.described.max_defined == 0;
        let defined = match is_flat {
            true => 0,
            false => *self.defined.get(self.at)?,
        };
        Some((defined, self.repeated.get(self.at).copied().unwrap_or(0)))
    }

    /// Whether the next value belongs to the row of the one before.
    pub(super) fn is_within_row(&self) -> bool {
        self.levels().is_some_and(|(_, repeated)| repeated > 0)
    }

    /// Passes over a place without a value.
    pub(super) fn skip(&mut self) {
        self.at += 1;
    }

    /// The next value, whose bytes are taken from `left`.
    pub(super) fn value(&mut self, left: &mut usize) -> Result<Value, String> {
        let (defined, _) = self.levels().ok_or("its values end too early")?;
        self.at += 1;
        if defined < self.described.max_defined {
            return Ok(Value::Null);
        }
        let at = self.at_value;
        self.at_value += 1;
        let short = || "its values end too early".to_owned();
        let meaning = self.described.meaning;
        Ok(match &self.cells {
            Cells::Bools(_, values) => Value::Bool(*values.get(at).ok_or_else(short)?),
            Cells::Ints(_, values) => {
                let value = *values.get(at).ok_or_else(short)?;
                match meaning {
                    Meaning::Unsigned => Value::from(value as u32),
                    _ => number(value.into(), meaning),
                }
            }
            Cells::Longs(_, values) => number(*values.get(at).ok_or_else(short)?, meaning),
            Cells::Floats(_, values) => {
                let value = values.get(at).ok_or_else(short)?;
                // As short as it is written, and not with the digits that make it a double.
                value
                    .to_string()
                    .parse::<f64>()
                    .map_or(Value::Null, Value::from)
            }
            Cells::Doubles(_, values) => Value::from(*values.get(at).ok_or_else(short)?),
            Cells::Bytes(_, values) => {
                let bytes = values.get(at).ok_or_else(short)?.data();
                *left = left.checked_sub(bytes.len()).ok_or(TOO_MUCH)?;
                let text = std::str::from_utf8(bytes)
                    .map_err(|_| "binary, expected text: leave the column out")?;
                Value::from(text)
            }
            Cells::Fixed(_, values) => {
                let bytes = values.get(at).ok_or_else(short)?.data();
                match (bytes.len(), meaning) {
                    (1..=16, Meaning::Decimal { scale }) => {
                        let first = bytes[0] as i8;
                        let whole = bytes[1..].iter().fold(i128::from(first), |whole, byte| {
                            whole << 8 | i128::from(*byte)
                        });
                        Value::from(decimal(whole, scale))
                    }
                    _ => return Err("of a type that is not read: save it as text".to_owned()),
                }
            }
            Cells::Unread => return Err("of a type that is not read: save it as text".to_owned()),
        })
    }
}

fn read<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    values: &mut Vec<T::T>,
    (defined, repeated): (&mut Vec<i16>, &mut Vec<i16>),
    rows: usize,
) -> Result<usize, ParquetError> {
    values.clear();
    defined.clear();
    repeated.clear();
    let mut read = 0;
    while read < rows {
        let (records, _, levels) =
            reader.read_records(rows - read, Some(defined), Some(repeated), values)?;
        read += records;
        if records == 0 && levels == 0 {
            break;
        }
    }
    Ok(read)
}

/// A whole number as what it means.
fn number(value: i64, meaning: Meaning) -> Value {
    match meaning {
        Meaning::Plain => Value::from(value),
        Meaning::Unsigned => Value::from(value as u64),
        Meaning::Date => Value::from(date(value)),
        Meaning::Time {
            parts,
            digits,
            zone,
        } => {
            let (second, part) = (value.div_euclid(parts), value.rem_euclid(parts));
            let (day, second) = (second.div_euclid(86_400), second.rem_euclid(86_400));
            let (hour, minute) = (second / 3_600, second / 60 % 60);
            let part = match part {
                0 => String::new(),
                part => format!(".{part:0digits$}"),
            };
            let day = date(day);
            Value::from(format!(
                "{day}T{hour:02}:{minute:02}:{:02}{part}{zone}",
                second % 60
            ))
        }
        Meaning::Decimal { scale } => Value::from(decimal(value.into(), scale)),
    }
}

/// A whole number with so many of its digits after the point.
fn decimal(whole: i128, scale: usize) -> String {
    let digits = whole.unsigned_abs().to_string();
    let sign = if whole < 0 { "-" } else { "" };
    // No decimal has more than 76 digits.
    let scale = scale.min(76);
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (before, after) = digits.split_at(digits.len() - scale);
    format!("{sign}{before}.{after}")
}

/// A day since 1970 in the Gregorian calendar, years counted from March as in Howard Hinnant's `civil_from_days`.
fn date(day: i64) -> String {
    let day = i128::from(day) + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i128::from(month <= 2);
    format!("{year:04}-{month:02}-{of_month:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_they_mean() {
        let millis = Meaning::Time {
            parts: 1_000,
            digits: 3,
            zone: "Z",
        };
        for (value, meaning, expected) in [
            (-1, Meaning::Plain, "-1"),
            (-1, Meaning::Unsigned, "18446744073709551615"),
            (0, Meaning::Date, "\"1970-01-01\""),
            (-1, Meaning::Date, "\"1969-12-31\""),
            (19_782, Meaning::Date, "\"2024-02-29\""),
            (1_709_210_096_007, millis, "\"2024-02-29T12:34:56.007Z\""),
            (-1, millis, "\"1969-12-31T23:59:59.999Z\""),
            (-5, Meaning::Decimal { scale: 2 }, "\"-0.05\""),
            (12_345, Meaning::Decimal { scale: 2 }, "\"123.45\""),
        ] {
            assert_eq!(number(value, meaning).to_string(), expected);
        }
        for value in [i64::MIN, i64::MAX] {
            number(value, Meaning::Date);
            number(value, millis);
        }
    }
}
