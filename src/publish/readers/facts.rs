//! What an index may rely on in every sample of a dataset, gathered from the records.

use std::collections::BTreeSet;

use crate::base::image::{ImageFormat, image_field};
use crate::model::record::{FieldRecord, NO_LABEL, SampleRecord, ShardRecord};

/// What the records of all shards have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Names of the fields that hold images.
    pub image_fields: BTreeSet<String>,
    /// Formats of the images, where they were looked at.
    pub image_formats: BTreeSet<&'static str>,
    /// What every sample has; `None` where there are no samples.
    pub all: Option<Common>,
}

/// What every sample has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Common {
    /// Names of fields.
    pub fields: BTreeSet<String>,
    /// Whether each has an image.
    pub image: bool,
    /// Whether the `cls` of each is its label as a decimal number.
    pub number: bool,
}

impl Common {
    fn of(row: &SampleRecord) -> Self {
        let field = |row: &FieldRecord| row.name.clone();
        Self {
            fields: row.fields.iter().map(field).collect(),
            image: row.fields.iter().any(is_image),
            number: has_number(row),
        }
    }

    fn narrow(&mut self, row: &SampleRecord) {
        let has = |name: &String| row.fields.iter().any(|field| field.name == *name);
        self.fields.retain(has);
        self.image &= row.fields.iter().any(is_image);
        self.number &= has_number(row);
    }

    fn join(&mut self, other: &Common) {
        self.fields.retain(|name| other.fields.contains(name));
        self.image &= other.image;
        self.number &= other.number;
    }
}

fn is_image(field: &FieldRecord) -> bool {
    image_field(field.name.as_bytes()).is_some()
}

/// Whether `cls` holds the label as a number: what it holds is known by its checksum.
fn has_number(row: &SampleRecord) -> bool {
    let number = row.label.to_string();
    let is = |field: &&FieldRecord| {
        let bytes = number.as_bytes();
        field.crc32 == crc32fast::hash(bytes)
            || field.crc32 == crc32fast::hash(&[bytes, b"\n"].concat())
    };
    let cls = row.fields.iter().find(|field| field.name == "cls");
    row.label != NO_LABEL && cls.as_ref().is_some_and(is)
}

impl Facts {
    pub(super) fn of(record: &ShardRecord) -> Self {
        let mut facts = Facts::default();
        for row in &record.samples {
            match &mut facts.all {
                Some(all) => all.narrow(row),
                all => *all = Some(Common::of(row)),
            }
            facts
                .image_formats
                .extend(row.image.map(|image| ImageFormat::name(image.format)));
            let image = row.fields.iter().find(|field| is_image(field));
            if let Some(field) = image
                && !facts.image_fields.contains(&field.name)
            {
                facts.image_fields.insert(field.name.clone());
            }
        }
        facts
    }

    pub(super) fn join(&mut self, other: Facts) {
        self.image_fields.extend(other.image_fields);
        self.image_formats.extend(other.image_formats);
        match (&mut self.all, other.all) {
            (Some(all), Some(other)) => all.join(&other),
            (Some(_), None) => {}
            (all, other) => *all = other,
        }
    }
}
