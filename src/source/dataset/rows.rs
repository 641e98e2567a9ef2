//! A row of an index becomes the files that its sample was made from: names that give the same key, fields and paths again.

use crate::base::image::image_field;
use crate::model::record::{FieldRecord, SampleRecord, is_image_feature};
use crate::model::sample::{key, sidecar_field, split_extension};
use crate::source::dataset::contents::Contents;

/// The files of a sample, in one directory.
pub(super) struct Files<'r> {
    /// The directory that counts for the key.
    pub(super) dir: Vec<u8>,
    /// The directory that the image was read from, where that is another.
    pub(super) opened_at: Option<Vec<u8>>,
    /// Names with the fields that have their contents.
    pub(super) fields: Vec<(Vec<u8>, &'r FieldRecord)>,
    /// Fields that no file can be named after.
    pub(super) nameless: u64,
}

/// The directory of a path, and the name in it.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// The extension that a file with this field's content has; `None` if a file cannot have it.
fn extension(row: &SampleRecord, field: &str) -> Option<String> {
    if is_image_feature(field) {
        let format = row
            .image
            .map(|image| image.format.name().to_ascii_lowercase());
        let known = format.and_then(|format| image_field(format.as_bytes()));
        return Some(known.unwrap_or("jpg").to_owned());
    }
    sidecar_field(field.as_bytes()).filter(|name| name == field)
}

/// The files of a sample.
pub(super) fn files<'r>(row: &'r SampleRecord, contents: &Contents) -> Files<'r> {
    let mut nameless = 0;
    let mut fields = Vec::with_capacity(row.fields.len());
    for field in &row.fields {
        if contents.is_made(&field.name) {
            continue;
        }
        match extension(row, &field.name) {
            Some(extension) => fields.push((extension, field)),
            None => nameless += 1,
        }
    }
    let image = fields
        .iter()
        .find_map(|(extension, _)| image_field(extension.as_bytes()));
    let place = Place::of(row, image);
    let name = |extension: &str| match image_field(extension.as_bytes()) {
        // The image keeps its name.
        Some(field) if Some(field) == image => [&place.stem, &b"."[..], &place.extension].concat(),
        _ => [&place.stem, &b"."[..], extension.as_bytes()].concat(),
    };
    Files {
        fields: fields
            .iter()
            .map(|(extension, field)| (name(extension), *field))
            .collect(),
        dir: place.dir,
        opened_at: place.opened_at,
        nameless,
    }
}

/// Where the image of a sample was.
struct Place {
    dir: Vec<u8>,
    opened_at: Option<Vec<u8>>,
    stem: Vec<u8>,
    extension: Vec<u8>,
}

impl Place {
    /// By the path of the image, if that gives the key of the sample, and else by the key. `image` is the field that the image is.
    fn of(row: &SampleRecord, image: Option<&'static str>) -> Self {
        let path = row.source_path.counted();
        let (opened_at, name) = split(path.as_bytes());
        let (stem, extension) = split_extension(name);
        let is_image = image.is_some() && image_field(extension) == image;
        let leads_out = |part: &[u8]| part.is_empty() || part == b"." || part == b"..";
        let is_path = !path.as_bytes().split(|&b| b == b'/').any(leads_out);
        let (key_dir, key_stem) = split(row.key.as_bytes());
        let place = |dir: &[u8], other: Option<&[u8]>| Place {
            dir: dir.to_vec(),
            opened_at: other.map(<[u8]>::to_vec),
            stem: stem.to_vec(),
            extension: extension.to_vec(),
        };
        if is_image && is_path {
            if key(opened_at, stem) == row.key {
                return place(opened_at, None);
            }
            // A layout gave its directory another name.
            if key(key_dir, stem) == row.key {
                return place(key_dir, Some(opened_at));
            }
        }
        Place {
            dir: key_dir.to_vec(),
            opened_at: None,
            stem: key_stem.to_vec(),
            extension: image.unwrap_or("jpg").as_bytes().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::image::{ImageFormat, ImageInfo};
    use crate::model::manifest::Manifest;
    use crate::model::sample::SourcePath;

    fn row(key: &str, path: &str, fields: &[&str]) -> SampleRecord {
        let field = |name: &&str| FieldRecord {
            name: (*name).to_owned(),
            ..FieldRecord::default()
        };
        SampleRecord {
            key: key.to_owned(),
            source_path: SourcePath::new(path),
            image: Some(ImageInfo {
                format: ImageFormat::Jpeg,
                width: 1,
                height: 1,
            }),
            fields: fields.iter().map(field).collect(),
            ..SampleRecord::default()
        }
    }

    /// Directory, where that is opened, and names of the files of a row of a tar of ours.
    fn named(row: &SampleRecord) -> (String, Option<String>, Vec<String>) {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let contents = Contents::tar();
        let files = files(row, &contents);
        let names = files.fields.into_iter().map(|(name, _)| text(name));
        let names = names.collect();
        (text(files.dir), files.opened_at.map(text), names)
    }

    #[test]
    fn files_have_the_names_that_they_had() {
        let plain = row("cat/x", "cat/x.JPEG", &["cls", "jpg", "txt"]);
        let expected = ["x.JPEG", "x.txt"].map(str::to_owned).to_vec();
        assert_eq!(named(&plain), ("cat".to_owned(), None, expected.clone()));
        let in_tar = row("cat/x", "cat.tar!/x.JPEG", &["cls", "jpg", "txt"]);
        assert_eq!(named(&in_tar), ("cat".to_owned(), None, expected));
        let renamed = row("val/n01/x", "CLS/val/x.JPEG", &["jpg"]);
        let opened_at = Some("CLS/val".to_owned());
        let files = vec!["x.JPEG".to_owned()];
        assert_eq!(named(&renamed), ("val/n01".to_owned(), opened_at, files));
    }

    #[test]
    fn shards_of_others_are_named_by_their_keys() {
        let theirs = row(
            "a/0001",
            "",
            &["image/encoded", "image/class/text", "caption"],
        );
        let files = ["0001.jpg", "0001.caption"].map(str::to_owned).to_vec();
        assert_eq!(named(&theirs), ("a".to_owned(), None, files));
        let outside = row("a/x", "../a/x.jpg", &["jpg"]);
        assert_eq!(named(&outside).0, "a");
    }

    impl Contents {
        fn tar() -> Self {
            let text = r#"{"kind":"shardpack-manifest","version":1,"name":"x","snapshot":1,"plan":"0","recipe":{"name":"x","format":"wds",
                "order":"listed","seed":0,"cut":{"shards":1},"json":false,"sha256":false,"validate":"header","splits":[],"include":[],
                "exclude":[],"labels":false,"allow_empty":false},"samples":0,"bytes":0,"classes":[],"splits":[],"skipped":[],"odd":[]}"#;
            Contents::of(&Manifest::decode("m", text.as_bytes()).unwrap())
        }
    }
}
