//! Whether the labels of a label file can be right, where that can be told: ImageNet's validation images are known by their names, and a header
//! that was not recognised names no image.

use crate::base::error::{Error, Result};
use crate::base::units::count_text;
use crate::source::dirs::{Classes, Split};
use crate::source::imagenet;
use crate::source::samples::Scan;
use crate::source::scanner::Scanner;

/// How the labels of images that ImageNet knows compare with its own.
#[derive(Default)]
struct Comparison {
    /// Images with ImageNet's label.
    same: u64,
    /// Images with that of another class.
    other: u64,
    /// Images whose label is a number, and that is ImageNet's own id or one less.
    ids: u64,
    /// The first of those: file, class here, class there.
    example: Option<(String, String, u32)>,
}

impl Scanner<'_> {
    /// Refuses labels that most of ImageNet's validation images cannot have: they count in another order than the labels were made for.
    pub(super) fn doubt_labels(
        &self,
        scan: &Scan,
        splits: &[Split],
        classes: &Classes,
    ) -> Result<()> {
        let Some(labels) = self.rules.labels.as_ref().filter(|_| self.rules.doubt) else {
            return Ok(());
        };
        if let (Some((file, class)), true) = (labels.odd_first_row(), self.notes.unused_labels > 0)
            && !file
                .bytes()
                .any(|byte| byte.is_ascii_digit() || byte == b'.')
            && !labels
                .by_name(file.as_bytes())
                .is_some_and(|label| has_images(scan, classes, label))
        {
            return Err(Error::source_data(format!(
                "{}: the first row, `{file}` and `{class}`, names no image, and no other row has this class: if it is a header, say so with \
                 `--file-column {file} --label-column {class}`, else remove it",
                labels.name()
            )));
        }
        let mut compared = Comparison::default();
        for entry in &scan.entries {
            if !splits[usize::from(entry.split)].flat {
                continue;
            }
            let dir = &scan.dirs[entry.dir as usize];
            let file = dir.file(entry.first as usize).name;
            let Some(id) = imagenet::validation_number(file).and_then(imagenet::validation_id)
            else {
                continue;
            };
            let Some(class) = classes.names.get(entry.label as usize) else {
                continue;
            };
            let is_number = *class == entry.label.to_string();
            let (right, wrong) = (imagenet::label_of_id(id), imagenet::label(class));
            match wrong {
                Some(wrong) if right == Some(wrong) => compared.same += 1,
                Some(_) => compared.other += 1,
                None if is_number && right == Some(entry.label) => compared.same += 1,
                None if is_number && [id, id - 1].contains(&entry.label) => compared.ids += 1,
                None => continue,
            }
            if compared.example.is_none() && compared.other + compared.ids > 0 {
                let path = dir.path_of(entry.first as usize).to_string();
                compared.example = right.map(|right| (path, class.clone(), right));
            }
        }
        match compared.other + compared.ids > compared.same {
            true => Err(compared.refusal(labels.name())),
            false => Ok(()),
        }
    }
}

/// Whether any image has this class of the label file.
fn has_images(scan: &Scan, classes: &Classes, label: u32) -> bool {
    let label = classes.by_label.get(label as usize);
    label.is_some_and(|label| scan.entries.iter().any(|entry| entry.label == *label))
}

impl Comparison {
    fn refusal(&self, file: &str) -> Error {
        let (path, class, right) = self.example.clone().unwrap_or_default();
        let right_class = imagenet::class(right).unwrap_or_default();
        let words = |class: &str| match imagenet::words(class) {
            Some(words) => format!("{class} ({words})"),
            None => class.to_owned(),
        };
        let wrong = self.other + self.ids;
        let order = match self.ids > self.other {
            true => "its numbers are ImageNet's own ids, and labels are ranks of the sorted names",
            false => "its numbers count the classes in another order, or it is of other images",
        };
        Error::source_data(format!(
            "{file}: {} of {} validation images of ImageNet would get a wrong label: {path} would be {}, and is {} with label {right}: {order}; \
             leave `--labels` out, `--layout imagenet` knows these labels",
            count_text(wrong),
            count_text(wrong + self.same),
            words(&class),
            words(right_class),
        ))
    }
}
