//! WebDataset tar: plain POSIX ustar as every reader takes it, wids and DALI included.
//!
//! Source: POSIX.1-2017 `pax`, "ustar Interchange Format". Name at most 100 bytes in the name field, mode 0444, owner 0, time 0,
//! no extended headers, two zero blocks at the end.

mod header;
mod walk;

use std::io::{self, Read};

use serde::Serialize;

use crate::base::error::{Error, Result};
use crate::format::tar::header::{
    BLOCK, END_BYTES, MAX_SIZE, NAME_BYTES, ZEROS, header, member_name, padding,
};
use crate::format::tar::walk::walk;
use crate::format::{About, Body, Layout, Out, Packer, PlacedSample, Spot, Visit};
use crate::model::limits::Limits;
use crate::model::recipe::{Names, Recipe};
use crate::model::record::FieldRecord;

/// The layout `wds`.
pub(super) struct Tar {
    json: bool,
}

impl Tar {
    /// With what the recipe wants in each sample.
    pub(super) fn new(recipe: &Recipe) -> Self {
        Self { json: recipe.json }
    }
}

/// The fields of a sample that are made from what is known of it, with their content.
fn made(json: bool, about: &About<'_>) -> Vec<(&'static str, Vec<u8>)> {
    // No reader takes a number for none: a sample without a label has no `cls`.
    let label = about.label.map(|label| label.to_string().into_bytes());
    let mut made: Vec<_> = label.map(|label| ("cls", label)).into_iter().collect();
    if json {
        #[derive(Serialize)]
        struct Json<'a> {
            class: &'a str,
            filename: &'a str,
            label: Option<u32>,
            split: &'a str,
        }
        let path = about.path.counted();
        let json = Json {
            class: about.class(),
            filename: &path.text(),
            label: about.label,
            split: about.split,
        };
        // Strings and a number always serialise.
        made.push(("json", serde_json::to_vec(&json).unwrap_or_default()));
    }
    made
}

struct TarPacker {
    json: bool,
    samples: usize,
}

impl Packer for TarPacker {
    fn append(
        &mut self,
        out: &mut dyn Out,
        about: &About<'_>,
        fields: &mut [(&str, Body<'_>)],
    ) -> Result<PlacedSample> {
        let offset = out.position();
        let made = made(self.json, about);
        // Read fields by their number, made ones after them.
        let read = fields.iter().map(|(name, _)| *name);
        let names: Vec<&str> = read.chain(made.iter().map(|(name, _)| *name)).collect();
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_key(|&at| names[at]);
        let mut placed = Vec::with_capacity(order.len());
        for at in order {
            let field = names[at];
            let spot = |what| Spot {
                what,
                sample: Some(self.samples),
                field,
            };
            let mut made = at
                .checked_sub(fields.len())
                .map(|at| Body::new(&made[at].1));
            let size = match &made {
                Some(body) => body.size(),
                None => fields[at].1.size(),
            };
            let name = member_name(about.key, field);
            if name.len() > NAME_BYTES || size > MAX_SIZE {
                return Err(Error::failed(format!(
                    "{name}: {} bytes of name and {size} of content do not fit a ustar header",
                    name.len()
                )));
            }
            out.frame(spot("header"), &header(&name, size))?;
            let start = out.position();
            let content = spot("content");
            let crc32 = match &mut made {
                Some(body) => out.content(content, body, &mut |_| ()),
                None => out.content(content, &mut fields[at].1, &mut |_| ()),
            }?;
            out.frame(spot("padding"), &ZEROS[..padding(size)])?;
            placed.push(FieldRecord {
                name: field.to_owned(),
                offset: start,
                length: size,
                crc32,
            });
        }
        self.samples += 1;
        Ok(PlacedSample {
            offset,
            length: out.position() - offset,
            fields: placed,
        })
    }

    fn finish(&mut self, out: &mut dyn Out) -> Result<()> {
        let spot = Spot {
            what: "end marker",
            sample: None,
            field: "",
        };
        out.frame(spot, &ZEROS)
    }
}

impl Layout for Tar {
    fn extension(&self) -> &'static str {
        "tar"
    }

    fn limits(&self) -> Limits {
        let why = "the ustar profile that every reader accepts ends at 8 GiB";
        Limits::of_fields(MAX_SIZE, why)
    }

    fn generated(&self) -> Vec<&'static str> {
        match self.json {
            true => vec!["cls", "json"],
            false => vec!["cls"],
        }
    }

    fn sample_bytes(&self, about: &About<'_>, fields: &[(&str, u64)]) -> u64 {
        let member = |size: u64| BLOCK as u64 + size + padding(size) as u64;
        let made = made(self.json, about);
        let made = made.iter().map(|(_, content)| member(content.len() as u64));
        fields
            .iter()
            .map(|&(_, size)| member(size))
            .chain(made)
            .sum()
    }

    fn overhead_bytes(&self) -> u64 {
        END_BYTES as u64
    }

    fn joins(&self) -> bool {
        true
    }

    fn walk(
        &self,
        name: &str,
        _: &str,
        shard: &mut (dyn Read + Send),
        visit: &mut dyn Visit,
    ) -> io::Result<()> {
        walk(name, shard, visit)
    }

    fn packer<'a>(&'a self, _: &'a Names) -> Result<Box<dyn Packer + 'a>> {
        Ok(Box::new(TarPacker {
            json: self.json,
            samples: 0,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use md5::{Digest as _, Md5};
    use proptest::prelude::*;

    use crate::base::text::hex;
    use crate::format::test::{Members, check, pack, samples, walk};

    pub(super) fn tar() -> Tar {
        Tar { json: false }
    }

    /// Two samples of class 0 and 1.
    pub(super) fn vector() -> Members {
        let sample = |key: &str, label, letter: u8, size| {
            let fields = vec![("jpg".to_owned(), vec![letter; size])];
            (key.to_owned(), label, fields)
        };
        vec![
            sample("000000", 0, b'A', 600),
            sample("000001", 1, b'B', 513),
        ]
    }

    #[test]
    fn the_published_test_vector_comes_out_byte_for_byte() {
        let (bytes, record) = pack(&tar(), &vector());
        assert_eq!(bytes.len(), 6144);
        assert_eq!(
            hex(&Md5::digest(&bytes)),
            "2edd3712840a8f14740a2c561554166f"
        );
        assert_eq!(&bytes[148..156], b"007154\0 ");
        let offsets: Vec<u64> = record
            .samples
            .iter()
            .flat_map(|s| s.fields.iter().map(|f| f.offset))
            .collect();
        assert_eq!(offsets, [512, 1536, 3072, 4096]);
    }

    #[test]
    fn every_flipped_byte_is_found_and_its_place_named() {
        let (bytes, record) = pack(&tar(), &vector());
        assert_eq!(check(&tar(), &bytes, &record), []);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let findings = check(&tar(), &damaged, &record);
            assert_eq!(findings.len(), 1, "byte {at}: {findings:?}");
            let [from, to] = findings[0].range.unwrap();
            assert!(
                (from..to).contains(&(at as u64)),
                "byte {at}: {}",
                findings[0]
            );
            assert!(findings[0].sample.is_some());
        }
    }

    #[test]
    fn every_cut_and_every_addition_is_found() {
        let (mut bytes, record) = pack(&tar(), &vector());
        for end in 0..bytes.len() {
            assert_eq!(
                check(&tar(), &bytes[..end], &record).len(),
                1,
                "cut at {end}"
            );
        }
        bytes.push(0);
        assert_eq!(check(&tar(), &bytes, &record).len(), 1);
    }

    #[test]
    fn a_tar_of_somebody_else_is_checked_for_structure() {
        let (bytes, _) = pack(&tar(), &vector());
        let look = |bytes: &[u8]| {
            let seen = walk(&tar(), bytes);
            let members: usize = seen.rows.iter().map(|row| row.fields.len()).sum();
            (seen.rows.len(), members, seen.found.len(), seen.noted.len())
        };
        assert_eq!(look(&bytes), (2, 4, 0, 0));
        assert_eq!(look(&bytes[..5120]), (2, 4, 1, 0), "no end marker");
        assert_eq!(look(&bytes[..4200]).2, 1, "cut inside a member");
        let twice = [&bytes[..2560], &bytes[..2560], &ZEROS[..]].concat();
        assert_eq!(look(&twice).2, 2, "one sample twice in a row");
    }

    proptest! {
        #[test]
        fn any_names_and_sizes_read_back_equal_with_the_tar_crate(
            members in samples()
        ) {
            let (bytes, record) = pack(&tar(), &members);
            let mut archive = tar::Archive::new(&bytes[..]);
            let mut entries = archive.entries().unwrap();
            for (sample, (key, label, fields)) in record.samples.iter().zip(&members) {
                let class = ("cls".to_owned(), label.to_string().into_bytes());
                let mut fields = fields.clone();
                fields.push(class);
                fields.sort();
                for (field, (name, data)) in sample.fields.iter().zip(&fields) {
                    let mut entry = entries.next().unwrap().unwrap();
                    prop_assert_eq!(entry.path_bytes().into_owned(), format!("{key}.{name}").into_bytes());
                    prop_assert_eq!(entry.raw_file_position(), field.offset);
                    let mut content = Vec::new();
                    entry.read_to_end(&mut content).unwrap();
                    prop_assert_eq!(&content, data);
                    prop_assert_eq!(crc32fast::hash(&content), field.crc32);
                }
            }
            prop_assert!(entries.next().is_none());
            let walked = walk(&tar(), &bytes).rows;
            for (walked, row) in walked.iter().zip(&record.samples) {
                prop_assert_eq!((walked.offset, walked.length, walked.label), (row.offset, row.length, row.label));
                prop_assert_eq!(&walked.fields, &row.fields);
            }
            prop_assert_eq!(walked.len(), record.samples.len());
            prop_assert_eq!(check(&tar(), &bytes, &record), vec![]);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..3000), at in 0usize..6144) {
            let (good, record) = pack(&tar(), &vector());
            check(&tar(), &bytes, &record);
            let mut mixed = good;
            let end = (at + bytes.len()).min(mixed.len());
            mixed[at..end].copy_from_slice(&bytes[..end - at]);
            walk(&tar(), &mixed);
        }
    }
}
