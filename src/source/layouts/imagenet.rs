//! ImageNet as its makers hand it out: an archive a split and a development kit, or what is unpacked of them, in any combination.

use crate::base::error::Result;
use crate::base::text::show;
use crate::model::listing::Dir;
use crate::model::recipe::Arrangement;
use crate::source::imagenet;
use crate::source::layouts::splits::{Places, are_official, inner, is_validation_image};
use crate::source::layouts::{Recognised, SMALL_BYTES, Unknown};
use crate::source::rules::first_component;

/// The archives, by the beginnings of their names; those of the test images end with a version, those of other tasks with theirs.
const TRAIN: &str = "ILSVRC2012_img_train";
const VAL: &str = "ILSVRC2012_img_val";
const TEST: &str = "ILSVRC2012_img_test";
/// The development kit's labels.
const TRUTH: &str = "ILSVRC2012_validation_ground_truth.txt";

/// Recognises the official names below the root, or a flat directory of validation or test images by their names; the root may be one itself.
pub(super) fn recognise(unknown: &mut Unknown<'_>) -> Result<Option<Recognised>> {
    let dirs = &unknown.listing.dirs;
    let (mut places, mut official) = (Places::default(), false);
    let mut top: Vec<&[u8]> = dirs
        .iter()
        .map(|dir| first_component(&dir.path).0)
        .collect();
    top.dedup();
    for name in top {
        let (place, is_official) = match show(name).as_str() {
            TRAIN => (&mut places.train, true),
            VAL => (&mut places.val, true),
            name if name.starts_with(TEST) => (&mut places.test, true),
            "train" => (&mut places.train, false),
            "val" | "valid" | "validation" => (&mut places.val, false),
            "test" => (&mut places.test, false),
            _ => continue,
        };
        if place.as_deref() == Some(name) {
            continue;
        }
        official |= is_official;
        if let Some(other) = place.replace(name.to_vec()) {
            let (other, name) = (show(&other), show(name));
            if !official && !unknown.is_wanted {
                return Ok(None);
            }
            return Err(unknown.refusal(format!(
                "both `{other}` and `{name}` are called as one split of ImageNet is: leave one out with `--exclude`"
            )));
        }
    }
    let is_test_image: fn(&[u8]) -> bool = imagenet::is_test_image;
    let flat = |place: &Option<Vec<u8>>, is| {
        place
            .as_ref()
            .is_some_and(|root| are_official(dirs, root, is))
    };
    let mut known =
        official || flat(&places.val, is_validation_image) || flat(&places.test, is_test_image);
    if let Some(whole) = one_split(dirs) {
        (places, known) = (whole, true);
    }
    let is_any = [&places.train, &places.val, &places.test]
        .iter()
        .any(|place| place.is_some());
    if !(known || unknown.is_wanted && is_any) {
        return match unknown.is_wanted {
            false => Ok(None),
            true => Err(unknown.refusal(format!(
                "no ImageNet here: expected `{TRAIN}`, `{VAL}` or `{TEST}` as archives or directories, or `train`, `val` or `test`"
            ))),
        };
    }
    for (_, place) in places.named() {
        *place = place.take().map(|root| inner(dirs, root));
    }
    let from = match (official, dirs.iter().any(|dir| dir.opened_at.is_some())) {
        (true, true) => "official archives",
        (true, false) => "official directories",
        (false, _) => "unpacked",
    };
    let compared = compare_truth(unknown)?;
    let said = unknown.take(places, compared)?;
    Ok(said.map(|said| Recognised {
        layout: Arrangement::Imagenet,
        said: format!("ImageNet, {from}: {said}"),
    }))
}

/// The source itself as one split, if its images are named as those of one are.
fn one_split(dirs: &[Dir]) -> Option<Places> {
    let (root, places) = (Some(Vec::new()), Places::default());
    if are_official(dirs, b"", is_validation_image) {
        Some(Places {
            val: root,
            ..places
        })
    } else if are_official(dirs, b"", imagenet::is_test_image) {
        Some(Places {
            test: root,
            ..places
        })
    } else {
        None
    }
}

/// Compares a development kit that is there with the labels that are built in, which must be the same.
fn compare_truth(unknown: &Unknown<'_>) -> Result<&'static str> {
    let Some((dir, index)) = unknown.files_named(TRUTH.as_bytes()).next() else {
        return Ok("");
    };
    // Files that are compared only are not read again for that.
    if !unknown.rules.doubt {
        return Ok("");
    }
    let text = unknown.read(dir, index, SMALL_BYTES)?;
    let text = String::from_utf8_lossy(&text);
    let mut known = (1..=imagenet::VALIDATION_IMAGES).map(imagenet::validation_id);
    let mut ids = text.split_ascii_whitespace();
    for line in 1.. {
        let (known, id) = (known.next().flatten(), ids.next());
        if known.is_none() && id.is_none() {
            break;
        }
        if known.map(|known| known.to_string()).as_deref() != id {
            return Err(unknown.refusal(format!(
                "{}: line {line} is {}, expected {} as in ImageNet's own: this is another file, or it is damaged; leave it out with `--exclude`",
                dir.path_of(index),
                id.unwrap_or("missing"),
                known.map_or("the end".to_owned(), |known| known.to_string()),
            )));
        }
    }
    Ok(", with which the development kit agrees")
}
