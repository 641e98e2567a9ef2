//! ImageNet as Kaggle hands it out (`imagenet-object-localization-challenge`): its zip, what is unpacked of it, or any level inside.

use std::collections::BTreeSet;

use crate::base::error::Result;
use crate::model::recipe::Arrangement;
use crate::model::sample::SourcePath;
use crate::source::imagenet;
use crate::source::labels::Labels;
use crate::source::layouts::splits::Places;
use crate::source::layouts::{Recognised, SMALL_BYTES, Unknown};

/// The directory of the splits, of which the last is always there.
const IMAGES: [&str; 2] = ["Data", "CLS-LOC"];
/// The validation labels, with boxes.
const SOLUTION: &str = "LOC_val_solution.csv";

/// Recognises the one directory `CLS-LOC` with images, in `Data` or at the root.
pub(super) fn recognise(unknown: &mut Unknown<'_>) -> Result<Option<Recognised>> {
    let [data, images] = IMAGES.map(str::as_bytes);
    let mut roots = BTreeSet::new();
    for dir in &unknown.listing.dirs {
        let parts: Vec<&[u8]> = dir.path.split(|&byte| byte == b'/').collect();
        let at = parts.windows(2).position(|pair| pair == [data, images]);
        let end = at.map(|at| at + 2).or((parts[0] == images).then_some(1));
        if let Some(end) = end {
            roots.insert(parts[..end].join(&b'/'));
        }
    }
    let mut roots = roots.into_iter();
    let (Some(root), None) = (roots.next(), roots.next()) else {
        return match unknown.is_wanted {
            true => Err(unknown.refusal(
                "Kaggle's ImageNet is not here, or more than once: expected one directory `Data/CLS-LOC` with `train`, `val` or `test`; give its \
                 root as SRC, or `--layout imagenet` for `CLS-LOC` itself",
            )),
            false => Ok(None),
        };
    };
    let place = |split: &str| {
        let path = SourcePath::join(&root, split.as_bytes()).into_bytes();
        let is_there = unknown.listing.dirs.iter().any(|dir| dir.path == path);
        is_there.then_some(path)
    };
    let places = Places {
        train: place("train"),
        val: place("val"),
        test: place("test"),
    };
    if places.train.is_none() && places.val.is_none() && places.test.is_none() {
        return Ok(None);
    }
    let compared = compare_solution(unknown)?;
    let said = unknown.take(places, compared)?;
    Ok(said.map(|said| Recognised {
        layout: Arrangement::Kaggle,
        said: format!("ImageNet, Kaggle's tree: {said}"),
    }))
}

/// Compares the validation labels that are there with those built in, which must be the same.
fn compare_solution(unknown: &Unknown<'_>) -> Result<&'static str> {
    let Some((dir, index)) = unknown.files_named(SOLUTION.as_bytes()).next() else {
        return Ok("");
    };
    if !unknown.rules.doubt {
        return Ok("");
    }
    let name = dir.path_of(index).to_string();
    let text = unknown.read(dir, index, SMALL_BYTES)?;
    let labels = Labels::parse(&name, &text, None).map_err(|error| unknown.refusal(error))?;
    for (line, image) in labels.names() {
        let class = labels.by_name(image.as_bytes());
        let class = class.and_then(|class| labels.classes().get(class as usize));
        let known = imagenet::validation_label(image.as_bytes()).and_then(imagenet::class);
        if class.map(String::as_str) != known {
            return Err(unknown.refusal(format!(
                "{name}: line {line}: `{image}` has class `{}`, expected {}: this is another file, or it is damaged; leave it out with `--exclude`",
                class.map_or("", String::as_str),
                known.map_or("an image of ImageNet's validation set".to_owned(), |known| format!("`{known}`")),
            )));
        }
    }
    Ok(", with which LOC_val_solution.csv agrees")
}
