//! What is known of ImageNet's classification set of 2012: its 1,000 synsets, and of which class each validation image is.
//!
//! ImageNet numbers its synsets in an order of its own (`ILSVRC2012_ID`, from 1). Everybody's label is another number, the rank of the
//! synset among the sorted WordNet ids, from 0. Taking one for the other is the commonest silent mistake made with this set, so both are here
//! to be told apart. The two files are made by `generate.py` beside them, which says where they come from.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::model::sample::split_extension;

/// Classes.
pub(crate) const CLASSES: usize = 1000;
/// Training images.
pub(crate) const TRAIN_IMAGES: u64 = 1_281_167;
/// Validation images.
pub(crate) const VALIDATION_IMAGES: u64 = 50_000;
/// Test images.
pub(crate) const TEST_IMAGES: u64 = 100_000;

/// A line `id wnid train_images words` for each synset, in the order of the ids.
const SYNSETS: &str = include_str!("synsets.tsv");
/// For each validation image its id less 1, 10 bits each.
const VALIDATION: &[u8] = include_bytes!("validation.bin");
/// Bits of an id there.
const ID_BITS: usize = 10;

/// The synsets, in both orders.
struct Synsets {
    /// In the order of the WordNet ids, which is that of the labels: WordNet id and words.
    sorted: Vec<(&'static str, &'static str)>,
    /// Label of the synset with each id less 1.
    labels: Vec<u32>,
    by_name: HashMap<&'static str, u32>,
}

static ALL: LazyLock<Synsets> = LazyLock::new(|| {
    let row = |line: &'static str| {
        let mut cells = line.split('\t').skip(1);
        (
            cells.next().unwrap_or_default(),
            cells.nth(1).unwrap_or_default(),
        )
    };
    let by_id: Vec<_> = SYNSETS.lines().skip(1).map(row).collect();
    let mut sorted = by_id.clone();
    sorted.sort_unstable();
    let by_name: HashMap<_, _> = sorted.iter().map(|(wnid, _)| *wnid).zip(0..).collect();
    let labels = by_id.iter().map(|(wnid, _)| by_name[wnid]).collect();
    Synsets {
        sorted,
        labels,
        by_name,
    }
});

/// The WordNet ids in the order of the labels.
pub(crate) fn classes() -> impl Iterator<Item = &'static str> {
    ALL.sorted.iter().map(|(wnid, _)| *wnid)
}

/// What the class with this WordNet id is called.
pub(crate) fn words(wnid: &str) -> Option<&'static str> {
    label(wnid).map(|label| ALL.sorted[label as usize].1)
}

/// The label of the class with this WordNet id.
pub(crate) fn label(wnid: &str) -> Option<u32> {
    ALL.by_name.get(wnid).copied()
}

/// The WordNet id with this label.
pub(crate) fn class(label: u32) -> Option<&'static str> {
    ALL.sorted.get(label as usize).map(|(wnid, _)| *wnid)
}

/// The label of the class with this `ILSVRC2012_ID`.
pub(crate) fn label_of_id(id: u32) -> Option<u32> {
    let place = usize::try_from(id).ok()?.checked_sub(1)?;
    ALL.labels.get(place).copied()
}

/// The `ILSVRC2012_ID` of the validation image with this number, from 1.
pub(crate) fn validation_id(number: u64) -> Option<u32> {
    if !(1..=VALIDATION_IMAGES).contains(&number) {
        return None;
    }
    let bit = (number as usize - 1) * ID_BITS;
    let pair = [VALIDATION[bit / 8], VALIDATION[bit / 8 + 1]];
    let id = u16::from_le_bytes(pair) >> (bit % 8) & ((1 << ID_BITS) - 1);
    Some(u32::from(id) + 1)
}

/// The label of the validation image with this file name, which goes by the number in the name.
pub(crate) fn validation_label(file: &[u8]) -> Option<u32> {
    validation_number(file).and_then(|number| label_of_id(validation_id(number)?))
}

/// The number of a validation image in its file's name, `ILSVRC2012_val_00000001.JPEG`.
pub(crate) fn validation_number(file: &[u8]) -> Option<u64> {
    let number = number(file, b"ILSVRC2012_val_")?;
    (1..=VALIDATION_IMAGES).contains(&number).then_some(number)
}

/// Whether a file has the name of a test image, `ILSVRC2012_test_00000001.JPEG`.
pub(crate) fn is_test_image(file: &[u8]) -> bool {
    number(file, b"ILSVRC2012_test_").is_some()
}

/// The eight digits that follow `before` in a file's name.
fn number(file: &[u8], before: &[u8]) -> Option<u64> {
    let digits = split_extension(file).0.strip_prefix(before)?;
    let is_one = digits.len() == 8 && digits.iter().all(u8::is_ascii_digit);
    let digits = is_one.then(|| std::str::from_utf8(digits).ok())??;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_ranks_of_sorted_names_and_never_ids() {
        assert_eq!(classes().count(), CLASSES);
        assert!(classes().is_sorted());
        assert_eq!(
            (class(0), class(999)),
            (Some("n01440764"), Some("n15075141"))
        );
        assert_eq!(class(1000), None);
        assert_eq!(label("n01751748"), Some(65));
        assert_eq!(label_of_id(490), Some(65), "a sea snake");
        assert_eq!(class(489), Some("n03000134"), "a chain-link fence");
        assert_eq!(words("n02119789"), Some("kit fox, Vulpes macrotis"));
        assert_eq!((label_of_id(0), label_of_id(1001)), (None, None));
    }

    #[test]
    fn every_class_has_fifty_validation_images() {
        let mut counts = [0; CLASSES];
        for number in 1..=VALIDATION_IMAGES {
            counts[validation_id(number).unwrap() as usize - 1] += 1;
        }
        assert_eq!(counts, [50; CLASSES]);
        let first: Vec<_> = (1..=3).map(|n| validation_id(n).unwrap()).collect();
        assert_eq!(first, [490, 361, 171]);
        assert_eq!((validation_id(0), validation_id(50_001)), (None, None));
    }

    #[test]
    fn a_validation_image_is_known_by_the_number_in_its_name() {
        assert_eq!(validation_label(b"ILSVRC2012_val_00000001.JPEG"), Some(65));
        assert_eq!(validation_label(b"ILSVRC2012_val_00000001"), Some(65));
        for other in [
            &b"ILSVRC2012_val_1.JPEG"[..],
            b"ILSVRC2012_val_00050001.JPEG",
            b"ILSVRC2012_val_00000000.JPEG",
            b"ILSVRC2012_test_00000001.JPEG",
            b"x/ILSVRC2012_val_00000001.JPEG",
            b"",
        ] {
            assert_eq!(validation_label(other), None);
        }
        assert!(is_test_image(b"ILSVRC2012_test_00000001.JPEG"));
    }
}
