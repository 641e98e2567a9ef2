//! Walks a TFRecord file that anybody made and says which samples are in it.

use std::io::{self, Read};
use std::ops::Range;

use prost::encoding::decode_varint;

use crate::base::image::{Validate, probe};
use crate::base::text::show;
use crate::format::tfrecord::frame::{
    HEAD_BYTES, MAX_EXAMPLE, TAIL_BYTES, begins_record, crc32c, masked, u32_at,
};
use crate::format::{Finding, Visit};
use crate::model::record::{FieldRecord, NO_LABEL, SampleRecord, is_image_feature};
use crate::model::sample::SourcePath;

/// Walks a TFRecord file made by anybody: framing, checksums, and what each Example holds. `keys` begins the keys of its samples.
pub(super) fn walk(
    name: &str,
    keys: &str,
    shard: &mut (dyn Read + Send),
    visit: &mut dyn Visit,
) -> io::Result<()> {
    let (mut head, mut data) = (Vec::new(), Vec::new());
    let mut offset = 0;
    for number in 0.. {
        let key = format!("{keys}/{number:08}");
        let finding = |what: &str| Finding::new(name, what).sample(&key);
        some(shard, HEAD_BYTES, &mut head)?;
        if head.is_empty() {
            return Ok(());
        }
        if head.len() < HEAD_BYTES as usize {
            let end = offset + head.len() as u64;
            visit.found(finding("file ends inside a record's length").range(offset, end));
            return Ok(());
        }
        let length = u64::from_le_bytes(std::array::from_fn(|i| head[i]));
        if !begins_record(&head) || length > MAX_EXAMPLE {
            // Without a length there is no next record.
            let what = finding("length of the record, by its crc32c: what follows cannot be read");
            visit.found(what.range(offset, offset + HEAD_BYTES));
            return Ok(());
        }
        some(shard, length + TAIL_BYTES, &mut data)?;
        let end = offset + HEAD_BYTES + length + TAIL_BYTES;
        if (data.len() as u64) < length + TAIL_BYTES {
            let there = offset + HEAD_BYTES + data.len() as u64;
            let what = finding("file ends inside this record").values(end, there);
            visit.found(what.range(there, end));
            return Ok(());
        }
        let sum = u32_at(&data, length as usize);
        data.truncate(length as usize);
        if sum != masked(crc32c(&data)) {
            visit.found(finding("content of the record, by its crc32c").range(offset, end));
        }
        let row = SampleRecord {
            key: key.clone(),
            label: NO_LABEL,
            offset,
            length: end - offset,
            ..SampleRecord::default()
        };
        match features(&data) {
            None => {
                let what = "not a tf.train.Example: its features are not known";
                visit.noted(finding(what));
                visit.sample(row, None);
            }
            Some(seen) => {
                let (row, class) = sample_of(row, &data, seen);
                visit.sample(row, class);
            }
        }
        offset = end;
    }
    Ok(())
}

/// The sample that an Example holds, and the name of its class; `row` says where it is.
fn sample_of(
    mut row: SampleRecord,
    data: &[u8],
    seen: FoundFeatures,
) -> (SampleRecord, Option<String>) {
    let label = seen.int(["image/class/label", "label"]);
    row.label = label
        .and_then(|label| u32::try_from(label).ok())
        .unwrap_or(NO_LABEL);
    let mut class = seen.text(data, ["image/class/synset", "image/class/text"]);
    if label.is_none() && class.is_none() {
        class = seen.text(data, ["image/class/label", "label"]);
    }
    let file = seen.text(data, ["image/filename", "file_name"]);
    row.source_path = SourcePath::new(file.unwrap_or_default());
    for (name, range) in seen.contents {
        let content = &data[range.clone()];
        if is_image_feature(&name) {
            row.image = probe(content, Validate::Header, 0).unwrap_or(None);
        }
        row.fields.push(FieldRecord {
            name,
            offset: row.offset + HEAD_BYTES + range.start as u64,
            length: range.len() as u64,
            crc32: crc32fast::hash(content),
        });
    }
    (row, class.map(|class| show(&class)))
}

/// Numbers of the fields of a `Feature` that are looked at.
const BYTES_LIST: u64 = 1;
const INT64_LIST: u64 = 3;

/// What a walk knows of an Example.
#[derive(Default)]
struct FoundFeatures {
    /// Byte features of one value: name, and where it is in the Example.
    contents: Vec<(String, Range<usize>)>,
    /// Integer features of one value.
    ints: Vec<(String, i64)>,
}

impl FoundFeatures {
    /// Takes a feature of one value; `None` where it is no message.
    fn feature(&mut self, data: &[u8], name: &str, feature: Range<usize>) -> Option<()> {
        for (kind, list) in message(data, feature)? {
            let is_bytes = kind == BYTES_LIST;
            if !is_bytes && kind != INT64_LIST {
                continue;
            }
            let mut values = fields_of(data, list, 1)?.into_iter();
            let (Some(value), None) = (values.next(), values.next()) else {
                continue;
            };
            if is_bytes {
                self.contents.push((name.to_owned(), value));
                continue;
            }
            // One value is the same bytes whether lists are packed or not.
            let mut packed = &data[value];
            if let Ok(value) = decode_varint(&mut packed)
                && packed.is_empty()
            {
                self.ints.push((name.to_owned(), value as i64));
            }
        }
        Some(())
    }

    fn int(&self, names: [&str; 2]) -> Option<i64> {
        let named = |name: &&str| self.ints.iter().find(|(known, _)| known == name);
        names.iter().find_map(named).map(|(_, value)| *value)
    }

    fn text(&self, data: &[u8], names: [&str; 2]) -> Option<Vec<u8>> {
        let named = |name: &&str| self.contents.iter().find(|(known, _)| known == name);
        let (_, range) = names.iter().find_map(named)?;
        Some(data[range.clone()].to_vec())
    }
}

/// The fields of a message: number, and where the content of a length-delimited one is. `None` where it is no message.
fn message(data: &[u8], within: Range<usize>) -> Option<Vec<(u64, Range<usize>)>> {
    let mut fields = Vec::new();
    let mut at = within.start;
    let varint = |at: &mut usize| {
        let mut rest = data.get(*at..within.end)?;
        let before = rest.len();
        let value = decode_varint(&mut rest).ok()?;
        *at += before - rest.len();
        Some(value)
    };
    while at < within.end {
        let key = varint(&mut at)?;
        let range = match key & 7 {
            0 => {
                let start = at;
                varint(&mut at)?;
                start..at
            }
            1 => at..at.checked_add(8)?,
            2 => {
                let length = usize::try_from(varint(&mut at)?).ok()?;
                at..at.checked_add(length)?
            }
            5 => at..at.checked_add(4)?,
            _ => return None,
        };
        if range.end > within.end {
            return None;
        }
        at = range.end;
        fields.push((key >> 3, range));
    }
    Some(fields)
}

/// The contents of the length-delimited fields of this number.
fn fields_of(data: &[u8], within: Range<usize>, number: u64) -> Option<Vec<Range<usize>>> {
    let fields = message(data, within)?.into_iter();
    let of_number = fields.filter(|(found, _)| *found == number);
    Some(of_number.map(|(_, range)| range).collect())
}

/// Finds the features of an Example without copying their content. `None` where it is no Example.
fn features(data: &[u8]) -> Option<FoundFeatures> {
    let mut seen = FoundFeatures::default();
    for features in fields_of(data, 0..data.len(), 1)? {
        for entry in fields_of(data, features, 1)? {
            let key = fields_of(data, entry.clone(), 1)?.into_iter().next();
            let feature = fields_of(data, entry, 2)?.into_iter().next();
            if let (Some(key), Some(feature)) = (key, feature) {
                let name = String::from_utf8_lossy(&data[key]).into_owned();
                seen.feature(data, &name, feature)?;
            }
        }
    }
    Some(seen)
}

/// Reads up to so many bytes; memory grows with what there is, not with what is announced.
fn some(shard: &mut (dyn Read + Send), most: u64, into: &mut Vec<u8>) -> io::Result<()> {
    into.clear();
    shard.take(most).read_to_end(into).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hostile_messages_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            features(&bytes);
        }
    }
}
