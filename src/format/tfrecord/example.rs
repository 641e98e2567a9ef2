//! The features of a sample, sorted by name so that the same sample gives the same bytes.
//!
//! Names of features are those of slim's `build_imagenet_data.py` and of TFDS.

use prost::Message as _;

use crate::base::image::{ImageFormat, ImageInfo, image_field};
use crate::format::About;
use crate::format::tfrecord::messages::{Entry, Feature, bytes, delimited, feature_bytes, int};
use crate::model::recipe::{Recipe, Schema};
use crate::model::sample::split_extension;

/// A width or height as planned: two bytes as a varint, as every one from 128 to 16383 is.
const PLANNED_SIDE: u32 = 256;

/// One feature of an Example: made here, or the content of a field.
pub(super) enum FeatureContent<'f> {
    /// An [`Entry`], encoded.
    Made(Vec<u8>),
    /// The content of a field that was read.
    Content {
        /// Name of the feature.
        feature: &'f str,
        /// Number of the field.
        field: usize,
        /// Length of the content in bytes.
        size: u64,
    },
}

impl FeatureContent<'_> {
    /// Bytes of the map entry, without its own tag and length.
    pub(super) fn entry_bytes(&self) -> u64 {
        match self {
            FeatureContent::Made(entry) => entry.len() as u64,
            FeatureContent::Content { feature, size, .. } => {
                delimited(feature.len() as u64) + delimited(feature_bytes(*size))
            }
        }
    }
}

/// The features of a sample.
pub(super) struct Parts<'f> {
    /// Sorted by name.
    pub(super) parts: Vec<FeatureContent<'f>>,
    /// Bytes of the `Features` message that they make.
    pub(super) features_bytes: u64,
    /// Bytes of the Example around it.
    pub(super) example_bytes: u64,
}

/// The layout `tfrecord`.
pub(in crate::format) struct TfRecord {
    pub(super) schema: Schema,
    pub(super) label_base: u32,
}

impl TfRecord {
    /// With the features that the recipe names.
    pub(in crate::format) fn new(recipe: &Recipe) -> Self {
        Self {
            schema: recipe.schema,
            label_base: recipe.label_base,
        }
    }

    /// The features that are made, by name.
    fn made(&self, about: &About<'_>) -> Vec<(&'static str, Feature)> {
        // A feature of every record for readers that parse all alike; none is -1 as in TFDS, and no class before the first.
        let label = about
            .label
            .map_or(-1, |label| i64::from(label) + i64::from(self.label_base));
        let path = about.path.as_bytes();
        let base = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
        if self.schema == Schema::Tfds {
            return vec![("file_name", bytes(base)), ("label", int(label))];
        }
        let (_, extension) = split_extension(base);
        let named = image_field(extension).and_then(ImageFormat::of_extension);
        let format = about.image.map(|image| image.format).or(named);
        let format = format
            .map_or("JPEG", ImageFormat::name)
            .to_ascii_uppercase();
        let side = |of: fn(ImageInfo) -> u32| int(about.image.map_or(PLANNED_SIDE, of).into());
        let mut made = vec![
            // What readers decode to, as slim's writer has it for grey and CMYK images too.
            ("image/channels", int(3)),
            ("image/class/label", int(label)),
            ("image/class/synset", bytes(about.class().as_bytes())),
            ("image/colorspace", bytes(b"RGB")),
            ("image/filename", bytes(base)),
            ("image/format", bytes(format.as_bytes())),
            ("image/height", side(|image| image.height)),
            ("image/width", side(|image| image.width)),
        ];
        let text = |label: u32| about.names.texts.get(label as usize);
        if let Some(text) = about.label.and_then(text) {
            made.push(("image/class/text", bytes(text.as_bytes())));
        }
        made
    }

    /// The features of a sample whose fields have these names and sizes.
    pub(super) fn parts<'f>(&self, about: &About<'_>, fields: &'f [(&str, u64)]) -> Parts<'f> {
        let mut parts: Vec<(&str, FeatureContent<'f>)> = Vec::with_capacity(12);
        for (name, feature) in self.made(about) {
            let entry = Entry {
                key: name.to_owned(),
                value: Some(feature),
            };
            parts.push((name, FeatureContent::Made(entry.encode_to_vec())));
        }
        let image = fields
            .iter()
            .position(|(name, _)| image_field(name.as_bytes()).is_some());
        for (field, &(name, size)) in fields.iter().enumerate() {
            let feature = if image == Some(field) {
                self.schema.features().0
            } else {
                name
            };
            parts.push((
                feature,
                FeatureContent::Content {
                    feature,
                    field,
                    size,
                },
            ));
        }
        parts.sort_by_key(|(name, _)| *name);
        let features_bytes = parts
            .iter()
            .map(|(_, part)| delimited(part.entry_bytes()))
            .sum();
        Parts {
            parts: parts.into_iter().map(|(_, part)| part).collect(),
            features_bytes,
            example_bytes: delimited(features_bytes),
        }
    }
}
