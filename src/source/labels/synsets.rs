//! The synset file: which class each number of a label file stands for.

use std::collections::HashMap;

use crate::source::imagenet;
use crate::source::labels::words::{first_word, is_number, is_synset, lines, number, utf8};

/// The classes of a synset file, and which number each has in it.
pub(super) struct Synsets {
    /// Name of the file, for messages.
    file: String,
    /// Their names, sorted by bytes.
    pub(super) classes: Vec<String>,
    /// The label of each position in the file's own order.
    labels: Vec<u32>,
}

impl Synsets {
    /// One class per line, its first word, or `id class` lines where the id gives the position.
    pub(super) fn parse(file: &str, text: &[u8]) -> Result<Synsets, String> {
        let lines: Vec<(usize, &str)> = lines(utf8(file, text)?).collect();
        if lines.is_empty() {
            return Err(format!("{file} has no classes: expected one per line"));
        }
        let order = match lines
            .iter()
            .map(|(line, text)| id_and_synset(*line, text))
            .collect()
        {
            Some(numbered) => in_order_of_ids(file, numbered)?,
            None => lines
                .iter()
                .map(|(line, text)| (*line, first_word(text)))
                .collect(),
        };
        let mut sorted = order.clone();
        sorted.sort_unstable_by_key(|(line, class)| (*class, *line));
        if let Some([(first, class), (again, _)]) =
            sorted.array_windows().find(|[one, next]| one.1 == next.1)
        {
            return Err(format!(
                "{file}: line {again}: `{class}` is on line {first} already: keep one of them"
            ));
        }
        let classes: Vec<String> = sorted.iter().map(|(_, class)| class.to_string()).collect();
        let numbered: HashMap<&str, u32> =
            sorted.iter().map(|(_, class)| *class).zip(0..).collect();
        let labels = order.iter().map(|(_, class)| numbered[class]).collect();
        Ok(Synsets {
            file: file.into(),
            classes,
            labels,
        })
    }

    /// Refuses a synset file in another order than the one that a bare list of numbers counts in: ImageNet's own, which is not sorted. The
    /// labels would be wrong, and nothing would show it.
    pub(super) fn refuse_other_order(
        &self,
        name: &str,
        ids: impl Iterator<Item = u64>,
    ) -> Result<(), String> {
        // Of some synsets only, the numbers are nobody's but the user's.
        if !self
            .classes
            .iter()
            .map(String::as_str)
            .eq(imagenet::classes())
        {
            return Ok(());
        }
        let is_own = (1..)
            .zip(&self.labels)
            .all(|(id, label)| imagenet::label_of_id(id) == Some(*label));
        let is_sorted = self.labels.is_sorted();
        let mut ids = (1..).zip(ids);
        let are_official =
            ids.all(|(image, id)| imagenet::validation_id(image).map(u64::from) == Some(id));
        if is_own || !(is_sorted || are_official) {
            return Ok(());
        }
        let (file, order) = (
            &self.file,
            if is_sorted {
                "sorted by name"
            } else {
                "in an order of its own"
            },
        );
        let what = match are_official {
            true => "holds the ids of ImageNet's development kit",
            false => "is a bare list of numbers, which are ids of ImageNet's development kit",
        };
        Err(format!(
            "{name} {what}, and they count the synsets in the order of its `meta.mat` (1 is n02119789, 2 is n02100735); {file} is {order}, in \
             which every image would get another class: give the synsets in the order of the ids or as lines `id wnid`, or leave `--labels` \
             out, `--layout imagenet` knows these labels"
        ))
    }

    /// The label of a number that counts the lines of the synset file from `base`.
    pub(super) fn label_of(
        &self,
        name: &str,
        line: usize,
        digits: &str,
        base: u64,
    ) -> Result<u32, String> {
        let position = number(digits)
            .checked_sub(base)
            .and_then(|at| usize::try_from(at).ok());
        if let Some(label) = position.and_then(|at| self.labels.get(at)) {
            return Ok(*label);
        }
        let (count, file) = (self.labels.len(), &self.file);
        let cause = match (number(digits), base) {
            (0, _) => "ILSVRC ids start at 1, so is this a list of labels that start at 0?",
            (n, 0) if n == count as u64 => "positions start at 0, so are these ids from 1?",
            _ => "is the synset file complete, and the one that belongs to this list?",
        };
        Err(format!(
            "{name}: line {line}: class number {digits} is not in {file}, expected {base} to {}: \
             {cause}",
            count as u64 + base - 1
        ))
    }

    /// The label of a class that is called by its name.
    pub(super) fn label_named(&self, name: &str, line: usize, class: &str) -> Result<u32, String> {
        match self
            .classes
            .binary_search_by(|known| known.as_str().cmp(class))
        {
            Ok(label) => Ok(label as u32),
            Err(_) => Err(format!(
                "{name}: line {line}: class `{class}` is not in {}: is the synset file complete, \
                 and the one that belongs to this list?",
                self.file
            )),
        }
    }
}

/// An `id synset ...` line taken apart: id, line, synset.
fn id_and_synset(line: usize, text: &str) -> Option<(u64, usize, &str)> {
    let mut words = text.split_whitespace();
    let (id, synset) = (words.next()?, words.next()?);
    (is_number(id) && is_synset(synset)).then(|| (number(id), line, synset))
}

/// Sorts synsets by their ids, which must be 1 to their number, each once.
fn in_order_of_ids<'a>(
    file: &str,
    mut numbered: Vec<(u64, usize, &'a str)>,
) -> Result<Vec<(usize, &'a str)>, String> {
    numbered.sort_unstable();
    let misplaced = numbered
        .iter()
        .zip(1..)
        .find(|((id, ..), expected)| id != expected);
    if let Some(((id, line, synset), expected)) = misplaced {
        return Err(format!(
            "{file}: line {line}: `{synset}` has id {id}, expected {expected}: ids are 1 to {}, \
             each once",
            numbered.len()
        ));
    }
    Ok(numbered
        .into_iter()
        .map(|(_, line, synset)| (line, synset))
        .collect())
}
