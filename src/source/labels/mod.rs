//! Reads label files: which class every image of a flat directory belongs to.
//!
//! ImageNet's validation set comes this way, in several dialects: `file,class` tables (Kaggle's
//! with boxes behind the class), `file class` lists (torch, caffe), and a bare list of class
//! numbers in file-name order (ImageNet's own, with a second file that says what the numbers mean).
//! All of them end as labels numbered as ImageFolder would, by sorted class name.
//!
//! Everything here takes bytes and gives values; no file is opened. Line numbers start at 1.

mod cells;
pub(crate) mod columns;
mod files;
mod json;
mod rows;
mod synsets;
mod words;

use std::collections::{BTreeSet, HashMap};

use crate::source::imagenet;
use crate::source::labels::cells::{Cells, Table};
use crate::source::labels::columns::Columns;
use crate::source::labels::files::{Row, Rows, base_name, named_rows, without_extension};
use crate::source::labels::rows::read_rows;
use crate::source::labels::synsets::Synsets;
use crate::source::labels::words::{is_number, is_synset, looks_numeric, number};

/// Numbers that are labels themselves stay below this; more is a mistake, not a class count.
pub(super) const MOST_NUMBERED_CLASSES: u64 = 1_000_000;

/// The class of every labelled file, from a label file.
#[derive(Debug)]
pub(crate) struct Labels {
    classes: Vec<String>,
    rows: Rows,
    /// Which columns they were taken from, for people; empty where nothing was to be chosen.
    taken: String,
    /// Name of the file, for messages.
    name: String,
}

/// How labels find their files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matching {
    /// Every row names its file.
    ByName,
    /// The k-th row belongs to the k-th image in sorted file-name order.
    ByPosition {
        /// Rows, and so images expected.
        rows: usize,
    },
}

impl Labels {
    /// Reads a label file and, if there is one, the file that says which synset has which number.
    ///
    /// `name` is the label file's name for messages and `text` its content; `synsets` is the same
    /// of the synset file. Cells are separated by commas, semicolons or tabs, quoted as in CSV, or by
    /// blanks, or are values of JSON objects, one a line; a header row, empty lines and lines that
    /// start with `#` are passed over.
    ///
    /// - `file class`: classes are the sorted class names, or those of the synset file.
    /// - `file number` without synsets: the number is the label, classes are `0`, `1`, … to the
    ///   largest.
    /// - `file number` with synsets: the number is a position in the synset file, from 0.
    /// - `number` alone: an ILSVRC id, a position in the synset file from 1, which must be given.
    /// - `wnid` alone: the class of the k-th image.
    ///
    /// # Errors
    ///
    /// One line that names the file, the line in it, and what to do.
    pub(crate) fn parse(
        name: &str,
        text: &[u8],
        synsets: Option<(&str, &[u8])>,
    ) -> Result<Labels, String> {
        Self::parse_columns(name, text, synsets, &Columns::default())
    }

    /// The same where the user may have said which columns are meant.
    pub(crate) fn parse_columns(
        name: &str,
        text: &[u8],
        synsets: Option<(&str, &[u8])>,
        columns: &Columns,
    ) -> Result<Labels, String> {
        let Table { rows, taken } = read_rows(name, text, columns)?;
        let synsets = synsets
            .map(|(name, text)| Synsets::parse(name, text))
            .transpose()?;
        let all =
            |is: fn(&str) -> bool| rows.iter().all(|row| row.class.is_none() && is(&row.first));
        let labels = if all(is_number) {
            by_position(name, &rows, synsets)?
        } else if all(is_synset) {
            classes_by_position(name, rows, synsets)?
        } else {
            by_name(name, rows, synsets)?
        };
        Ok(Labels { taken, ..labels })
    }

    /// The labels of ImageNet's validation images, by the numbers in their names.
    pub(crate) fn of_imagenet() -> Labels {
        Labels {
            classes: imagenet::classes().map(str::to_owned).collect(),
            rows: Rows::Imagenet,
            taken: String::new(),
            name: "ImageNet's validation labels".to_owned(),
        }
    }

    /// Name of the file that they are from, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Name of the file and which of its columns were taken, for people; empty where nothing was to be chosen.
    pub(crate) fn taken_text(&self) -> String {
        match self.taken.as_str() {
            "" => String::new(),
            taken => format!("{}: {taken}", self.name),
        }
    }

    /// Which columns they were taken from, for people; empty where nothing was to be chosen.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> &str {
        &self.taken
    }

    /// The first row with its class, if nothing else is of this class: it may be a header that was not recognised.
    pub(crate) fn odd_first_row(&self) -> Option<(&str, &str)> {
        let Rows::Named { rows, .. } = &self.rows else {
            return None;
        };
        let first = rows.first()?;
        let is_alone = rows[1..].iter().all(|row| row.label != first.label);
        let class = self.classes.get(first.label as usize)?;
        is_alone.then_some((&first.name, class))
    }

    /// Class names in label order.
    pub(crate) fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Whether the labels find their files by name or by position.
    pub(crate) fn matching(&self) -> Matching {
        match &self.rows {
            Rows::Named { .. } | Rows::Imagenet => Matching::ByName,
            Rows::Listed(labels) => Matching::ByPosition { rows: labels.len() },
        }
    }

    /// The label of a file, by its path relative to the labelled directory; an index of
    /// [`classes`](Labels::classes).
    ///
    /// Tried in this order: the path, the base name, and both without extension. A directory that
    /// all names of the label file share (`val/`) may be missing from the path.
    pub(crate) fn by_name(&self, relative_path: &[u8]) -> Option<u32> {
        let (rows, sorted, common) = match &self.rows {
            Rows::Named {
                rows,
                sorted,
                common,
            } => (rows, sorted, common),
            Rows::Listed(_) => return None,
            Rows::Imagenet => return imagenet::validation_label(base_name(relative_path)),
        };
        let shared = &rows.first()?.name.as_bytes()[..*common];
        let path = relative_path.strip_prefix(shared).unwrap_or(relative_path);
        let base = base_name(relative_path);
        [path, base, without_extension(path), without_extension(base)]
            .iter()
            .find_map(|wanted| {
                let name = |index: &u32| &rows[*index as usize].name.as_bytes()[*common..];
                let found = sorted
                    .binary_search_by(|index| name(index).cmp(wanted))
                    .ok()?;
                Some(rows[sorted[found] as usize].label)
            })
    }

    /// The label of the image that is `row`-th, from 0, in sorted file-name order; an index of
    /// [`classes`](Labels::classes).
    pub(crate) fn by_position(&self, row: usize) -> Option<u32> {
        match &self.rows {
            Rows::Named { .. } | Rows::Imagenet => None,
            Rows::Listed(labels) => labels.get(row).copied(),
        }
    }

    /// The names in the label file with the line each is on, in the order of the file and without
    /// repetitions; none if labels go by position.
    pub(crate) fn names(&self) -> impl Iterator<Item = (usize, &str)> {
        let rows = match &self.rows {
            Rows::Named { rows, .. } => rows.as_slice(),
            Rows::Listed(_) | Rows::Imagenet => &[],
        };
        rows.iter().map(|row| (row.line, row.name.as_str()))
    }
}

/// Labels of a list of class numbers.
fn by_position(name: &str, rows: &[Cells], synsets: Option<Synsets>) -> Result<Labels, String> {
    let Some(synsets) = synsets else {
        return Err(format!(
            "{name} has class numbers only, which count in a synset file: give `--synsets FILE`"
        ));
    };
    let ids = rows.iter().map(|row| number(&row.first));
    synsets.refuse_other_order(name, ids)?;
    let label = |row: &Cells| synsets.label_of(name, row.line, &row.first, 1);
    let labels = rows.iter().map(label).collect::<Result<_, _>>()?;
    Ok(Labels {
        classes: synsets.classes,
        rows: Rows::Listed(labels),
        taken: String::new(),
        name: name.to_owned(),
    })
}

/// Labels of a list of classes.
fn classes_by_position(
    name: &str,
    rows: Vec<Cells>,
    synsets: Option<Synsets>,
) -> Result<Labels, String> {
    let named: Vec<Named> = (rows.into_iter())
        .map(|Cells { line, first, .. }| Named {
            line,
            name: String::new(),
            class: first,
        })
        .collect();
    let (classes, labels) = match synsets {
        Some(synsets) => labels_of_synsets(name, &named, synsets)?,
        None => labels_of_names(name, &named)?,
    };
    Ok(Labels {
        classes,
        rows: Rows::Listed(labels),
        taken: String::new(),
        name: name.to_owned(),
    })
}

/// Labels of files that are named.
fn by_name(name: &str, rows: Vec<Cells>, synsets: Option<Synsets>) -> Result<Labels, String> {
    let mut named = Vec::with_capacity(rows.len());
    for Cells { line, first, class } in rows {
        let Some(class) = class else {
            return Err(format!("{name}: line {line}: `{first}` has no class"));
        };
        if first.is_empty() {
            return Err(format!(
                "{name}: line {line}: class `{class}` has no file name"
            ));
        }
        named.push(Named {
            line,
            name: first,
            class,
        });
    }
    let (classes, labels) = match synsets {
        Some(synsets) => labels_of_synsets(name, &named, synsets)?,
        None if named.iter().all(|row| is_number(&row.class)) => labels_of_numbers(name, &named)?,
        None => labels_of_names(name, &named)?,
    };
    let row = |(row, label): (Named, u32)| Row {
        line: row.line,
        name: row.name,
        label,
    };
    let rows = named.into_iter().zip(labels).map(row).collect();
    Ok(Labels {
        rows: named_rows(name, rows, &classes)?,
        classes,
        taken: String::new(),
        name: name.to_owned(),
    })
}

/// A row with both its cells.
struct Named {
    line: usize,
    name: String,
    class: String,
}

/// Class names in label order, and the label of each row.
type Labelled = (Vec<String>, Vec<u32>);

/// Numbers or names of classes in a synset file.
fn labels_of_synsets(name: &str, rows: &[Named], synsets: Synsets) -> Result<Labelled, String> {
    let numbers = rows.iter().all(|row| is_number(&row.class));
    let label = |row: &Named| match numbers {
        true => synsets.label_of(name, row.line, &row.class, 0),
        false => synsets.label_named(name, row.line, &row.class),
    };
    let labels = rows.iter().map(label).collect::<Result<_, _>>()?;
    Ok((synsets.classes, labels))
}

/// Numbers that are the labels themselves.
fn labels_of_numbers(name: &str, rows: &[Named]) -> Result<Labelled, String> {
    let mut labels = Vec::with_capacity(rows.len());
    for Named { line, class, .. } in rows {
        let number = number(class);
        if number >= MOST_NUMBERED_CLASSES {
            return Err(format!(
                "{name}: line {line}: class {class} is too large for a label, expected less than \
                 {MOST_NUMBERED_CLASSES}: is the second column the class?"
            ));
        }
        labels.push(number as u32);
    }
    let largest = labels.iter().copied().max().unwrap_or(0);
    Ok((
        (0..=largest).map(|label| label.to_string()).collect(),
        labels,
    ))
}

/// Names of classes, numbered in byte order.
fn labels_of_names(name: &str, rows: &[Named]) -> Result<Labelled, String> {
    // sorted as text these would be numbered 1, 10, 2, or after an "unknown" of -1
    if rows.iter().all(|row| looks_numeric(&row.class))
        && let Some(odd) = rows.iter().find(|row| !is_number(&row.class))
    {
        let Named { line, class, .. } = odd;
        return Err(format!(
            "{name}: line {line}: class {class} is no label, expected an integer from 0: write \
             integers, and leave out files of no class"
        ));
    }
    let classes: BTreeSet<&str> = rows.iter().map(|row| row.class.as_str()).collect();
    let numbered: HashMap<&str, u32> = classes.iter().copied().zip(0..).collect();
    let labels = rows
        .iter()
        .map(|row| numbered[row.class.as_str()])
        .collect();
    Ok((classes.into_iter().map(String::from).collect(), labels))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A synset file whose order is not that of the names.
    const SYNSETS: &str = "n02119789 kit fox\nn02100735 English setter\nn02110185 husky\n";

    fn parse(text: &str) -> Result<Labels, String> {
        Labels::parse("val.csv", text.as_bytes(), None)
    }

    fn parse_with(text: &str, synsets: &str) -> Result<Labels, String> {
        Labels::parse(
            "val.txt",
            text.as_bytes(),
            Some(("synsets.txt", synsets.as_bytes())),
        )
    }

    fn class(labels: &Labels, path: &str) -> Option<String> {
        let label = labels.by_name(path.as_bytes())?;
        Some(labels.classes()[label as usize].clone())
    }

    fn assert_classes(labels: &Labels, expected: &[(&str, &str)]) {
        for (path, wanted) in expected {
            assert_eq!(class(labels, path).as_deref(), Some(*wanted), "{path}");
        }
    }

    #[test]
    fn commas_tabs_and_blanks_are_told_apart() {
        let expected = [("a.jpg", "hot dog"), ("b.jpg", "cat")];
        for text in [
            "a.jpg,hot dog\nb.jpg,cat\n",
            "a.jpg\thot dog\nb.jpg\tcat",
            "a.jpg hot dog\nb.jpg   cat\n",
            "\u{FEFF}filename,class\r\na.jpg,hot dog\r\n\r\n# pets\r\nb.jpg, cat \r\n",
            "\"a.jpg\",\"hot dog\"\n\"b.jpg\",\"cat\"\n",
        ] {
            let labels = parse(text).unwrap();
            assert_eq!(labels.classes(), ["cat", "hot dog"], "{text}");
            assert_eq!(labels.matching(), Matching::ByName);
            assert_classes(&labels, &expected);
        }
    }

    #[test]
    fn a_comma_in_some_names_of_a_list_does_not_make_it_a_table() {
        let labels = parse("a,b.jpg cat\nc.jpg dog\n").unwrap();
        assert_classes(&labels, &[("a,b.jpg", "cat"), ("c.jpg", "dog")]);
    }

    #[test]
    fn a_quoted_cell_may_hold_the_delimiter_and_quotes() {
        let labels = parse("\"a,\"\"1\"\".jpg\",\"crane, bird\"\nb.jpg,crane\n").unwrap();
        assert_classes(
            &labels,
            &[("a,\"1\".jpg", "crane, bird"), ("b.jpg", "crane")],
        );
    }

    #[test]
    fn a_header_needs_a_row_after_it() {
        assert_eq!(parse("Image_ID,label\na,cat\n").unwrap().classes(), ["cat"]);
        assert_eq!(parse("image,label\n").unwrap().classes(), ["label"]);
    }

    #[test]
    fn a_wide_table_says_in_its_header_which_column_is_the_class() {
        let labels = parse("path,width,Label\na.jpg,500,cat\nb.jpg,375,dog\n").unwrap();
        assert_classes(&labels, &[("a.jpg", "cat"), ("b.jpg", "dog")]);
        assert_eq!(
            labels.taken(),
            "file from column `path`, class from column `Label`"
        );
    }

    #[test]
    fn a_column_that_would_be_guessed_is_refused_until_the_user_names_it() {
        let wide = "id,width,height,target\na.jpg,500,375,cat\nb.jpg,375,500,dog\n";
        let refused = [
            (wide, "`--label-column target`"),
            ("image,caption\na.jpg,a cat\n", "`--label-column caption`"),
            ("photo,label\na.jpg,cat\n", "`--file-column photo`"),
            ("file,class,label\na.jpg,cat,0\n", "several columns"),
            (
                "a.jpg,cat,500\nb.jpg,dog,375\n",
                "`--file-column 1 --label-column 2`",
            ),
            (
                "{\"image\": \"a.jpg\", \"caption\": \"a cat\"}\n",
                "`--label-column caption`",
            ),
            (
                "a.jpg,crane\nb.jpg,crane, bird\n",
                "line 2 has 3 cells, expected 2",
            ),
            ("image caption\na.jpg a\n", "--label-column"),
        ];
        for (text, words) in refused {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        let columns = |file: &str, label: &str| Columns {
            file: (!file.is_empty()).then(|| file.to_owned()),
            label: Some(label.to_owned()),
        };
        let named = |text: &str, columns: &Columns| {
            Labels::parse_columns("val.csv", text.as_bytes(), None, columns)
        };
        let expected = [("a.jpg", "cat"), ("b.jpg", "dog")];
        for (text, columns) in [
            (wide, columns("", "target")),
            (wide, columns("id", "4")),
            ("a.jpg,cat,500\nb.jpg,dog,375\n", columns("1", "2")),
            (
                "kind,photo\ncat,a.jpg\ndog,b.jpg\n",
                columns("photo", "kind"),
            ),
            ("kind;photo\ncat;a.jpg\ndog;b.jpg\n", columns("", "kind")),
        ] {
            assert_classes(&named(text, &columns).unwrap(), &expected);
        }
        let error = named(wide, &columns("", "targets")).unwrap_err();
        assert!(
            error.contains("no column `targets`") && error.contains("`height`"),
            "{error}"
        );
        assert!(
            named(wide, &columns("id", "id"))
                .unwrap_err()
                .contains("both")
        );
    }

    #[test]
    fn semicolons_json_lines_and_columns_in_another_order_are_read() {
        for text in [
            "a.jpg;hot dog\nb.jpg;cat\n",
            "file;label\na.jpg;hot dog\nb.jpg;cat\n",
            "label,filename\nhot dog,a.jpg\ncat,b.jpg\n",
            "{\"file_name\": \"a.jpg\", \"label\": \"hot dog\"}\n{\"label\": \"cat\", \"file_name\": \"b.jpg\"}\n",
        ] {
            assert_classes(
                &parse(text).unwrap(),
                &[("a.jpg", "hot dog"), ("b.jpg", "cat")],
            );
        }
        let numbers =
            "{\"image\": \"a.jpg\", \"label\": 1}\n{\"image\": \"b.jpg\", \"label\": 0}\n";
        assert_eq!(parse(numbers).unwrap().by_name(b"a.jpg"), Some(1));
        let error = parse("{\"file\": \"a\", \"label\": 1}\n{\"file\n").unwrap_err();
        assert!(
            error.starts_with("val.csv: line 2 is no JSON object"),
            "{error}"
        );
        let error = parse("{\"file\": \"a\", \"label\": [1]}\n").unwrap_err();
        assert!(error.contains("neither text nor a number"), "{error}");
    }

    #[test]
    fn a_list_of_classes_without_names_goes_by_position() {
        let labels = parse("n02110185\nn02100735\nn02110185\n").unwrap();
        assert_eq!(labels.matching(), Matching::ByPosition { rows: 3 });
        assert_eq!(labels.classes(), ["n02100735", "n02110185"]);
        assert_eq!(
            (labels.by_position(0), labels.by_position(1)),
            (Some(1), Some(0))
        );
    }

    #[test]
    fn the_development_kits_numbers_are_refused_with_synsets_in_another_order() {
        let sorted: String = imagenet::classes()
            .map(|class| format!("{class} words\n"))
            .collect();
        let mut own: Vec<_> = (1..=1000)
            .map(|id| imagenet::class(imagenet::label_of_id(id).unwrap()).unwrap())
            .collect();
        let labels = parse_with("490\n361\n171\n", &own.join("\n")).unwrap();
        let found: Vec<_> = (0..3).map(|row| labels.by_position(row)).collect();
        assert_eq!(found, [Some(65), Some(970), Some(230)]);
        for numbers in ["490\n361\n171\n", "1\n2\n"] {
            let error = parse_with(numbers, &sorted).unwrap_err();
            assert!(error.contains("synsets.txt is sorted by name"), "{error}");
        }
        own.reverse();
        let error = parse_with("490\n361\n171\n", &own.join("\n")).unwrap_err();
        assert!(error.contains("in an order of its own"), "{error}");
        assert!(parse_with("1\n2\n", &own.join("\n")).is_ok());
    }

    #[test]
    fn boxes_behind_a_kaggle_class_are_dropped() {
        let text = "ImageId,PredictionString\n\
            ILSVRC2012_val_00048981,n03995372 85 1 499 272 \n\
            ILSVRC2012_val_00037956,n03481172 131 0 499 254 n03481172 0 1 2 3\n\
            ILSVRC2012_val_00026161,n02108000\n";
        let labels = parse(text).unwrap();
        assert_eq!(labels.classes(), ["n02108000", "n03481172", "n03995372"]);
        let expected = [
            ("ILSVRC2012_val_00048981.JPEG", "n03995372"),
            ("val/ILSVRC2012_val_00037956.JPEG", "n03481172"),
        ];
        assert_classes(&labels, &expected);
    }

    #[test]
    fn a_class_that_only_resembles_boxes_is_kept_whole() {
        for class in [
            "n03995372 85 1 499",
            "n0399537 85 1 499 272",
            "n03995372 85 1 499 left",
        ] {
            assert_eq!(parse(&format!("a,{class}\n")).unwrap().classes(), [class]);
        }
    }

    #[test]
    fn numbers_without_synsets_are_the_labels() {
        let labels = parse("a.jpg 2\nb.jpg 10\nc.jpg 0\n").unwrap();
        assert_eq!(labels.classes().len(), 11);
        assert_eq!(labels.classes()[10], "10");
        assert_eq!(labels.by_name(b"b.jpg"), Some(10));
        assert_eq!(labels.by_name(b"c.jpg"), Some(0));
    }

    #[test]
    fn a_number_too_large_for_a_label_is_refused() {
        for number in ["1000000", "99999999999999999999999"] {
            let error = parse(&format!("a 1\nb {number}\n")).unwrap_err();
            let expected = format!(
                "val.csv: line 2: class {number} is too large for a label, expected less than \
                 1000000: is the second column the class?"
            );
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn numbers_that_are_no_labels_are_refused() {
        for odd in ["-1", "3.0"] {
            let error = parse(&format!("a 1\nb {odd}\n")).unwrap_err();
            assert!(error.starts_with(&format!("val.csv: line 2: class {odd} is no label")));
        }
        assert_eq!(
            parse("a 1\nb -1\nc cat\n").unwrap().classes(),
            ["-1", "1", "cat"]
        );
    }

    #[test]
    fn a_list_of_ids_gives_labels_by_position() {
        let labels = parse_with("3\n1\n\n2\n1\n", SYNSETS).unwrap();
        assert_eq!(labels.matching(), Matching::ByPosition { rows: 4 });
        assert_eq!(labels.classes(), ["n02100735", "n02110185", "n02119789"]);
        let found: Vec<_> = (0..5).map(|row| labels.by_position(row)).collect();
        assert_eq!(found, [Some(1), Some(2), Some(0), Some(2), None]);
        assert_eq!(labels.by_name(b"3"), None);
        assert_eq!(labels.names().count(), 0);
    }

    #[test]
    fn a_list_of_ids_needs_synsets() {
        let error = parse("490\n361\n").unwrap_err();
        assert!(error.ends_with(": give `--synsets FILE`"), "{error}");
    }

    #[test]
    fn an_id_out_of_range_names_line_value_range_and_cause() {
        assert_eq!(
            parse_with("1\n0\n", SYNSETS).unwrap_err(),
            "val.txt: line 2: class number 0 is not in synsets.txt, expected 1 to 3: ILSVRC ids \
             start at 1, so is this a list of labels that start at 0?"
        );
        let error = parse_with("1\n4\n", SYNSETS).unwrap_err();
        assert!(
            error.contains("class number 4") && error.contains("complete"),
            "{error}"
        );
        let error = parse_with("a 0\nb 3\n", SYNSETS).unwrap_err();
        assert!(
            error.contains("expected 0 to 2: positions start at 0"),
            "{error}"
        );
    }

    #[test]
    fn a_number_behind_a_name_is_a_position_in_the_synset_file() {
        let labels = parse_with("a.jpg 0\nb.jpg 1\n", SYNSETS).unwrap();
        assert_eq!(labels.classes().len(), 3);
        assert_classes(&labels, &[("a.jpg", "n02119789"), ("b.jpg", "n02100735")]);
    }

    #[test]
    fn a_class_behind_a_name_must_be_in_the_synset_file() {
        let labels = parse_with("a.jpg n02110185\n", SYNSETS).unwrap();
        assert_eq!(labels.by_name(b"a.jpg"), Some(1));
        let error = parse_with("a.jpg n00000000\n", SYNSETS).unwrap_err();
        assert!(error.starts_with("val.txt: line 1: class `n00000000` is not in synsets.txt"));
    }

    #[test]
    fn ids_in_a_synset_file_give_the_order() {
        let labels = parse_with("1\n", "2 n02119789 kit fox\n1 n02100735 setter\n").unwrap();
        assert_eq!(labels.by_position(0), Some(0));
        let error = parse_with("1\n", "1 n02119789\n1 n02100735\n").unwrap_err();
        let expected =
            "synsets.txt: line 2: `n02100735` has id 1, expected 2: ids are 1 to 2, each once";
        assert_eq!(error, expected);
    }

    #[test]
    fn a_synset_file_names_each_class_once() {
        let error = parse_with("1\n", "n1\nn2\nn1 again\n").unwrap_err();
        assert_eq!(
            error,
            "synsets.txt: line 3: `n1` is on line 1 already: keep one of them"
        );
        let error = parse_with("1\n", "\n# nothing\n").unwrap_err();
        assert_eq!(error, "synsets.txt has no classes: expected one per line");
    }

    #[test]
    fn a_file_is_found_by_path_base_name_and_stem() {
        let labels = parse("a/1.jpg cat\na/2 dog\n3.jpg cow\n4 hen\n").unwrap();
        let expected = [
            ("a/1.jpg", "cat"),
            ("a/2.png", "dog"),
            ("deep/down/3.jpg", "cow"),
            ("4.JPEG", "hen"),
            ("deep/4.JPEG", "hen"),
        ];
        assert_classes(&labels, &expected);
        for unknown in [
            &b"b/1.jpg"[..],
            b"3.png",
            b"a/2.tar.gz",
            b"\xFF\xFE.jpg",
            b"",
            b"/",
            b".",
        ] {
            assert_eq!(labels.by_name(unknown), None);
        }
    }

    #[test]
    fn a_directory_that_all_names_share_may_be_missing_from_the_path() {
        let labels = parse("./val/a/1.jpg cat\n./val/b/1.jpg dog\n").unwrap();
        let expected = [
            ("a/1.jpg", "cat"),
            ("b/1.jpg", "dog"),
            ("./val/a/1.jpg", "cat"),
        ];
        assert_classes(&labels, &expected);
        assert_eq!(labels.by_name(b"1.jpg"), None);
    }

    #[test]
    fn a_row_without_a_class_or_a_name_is_refused() {
        let error = parse("a.jpg,cat\n\n# gone\nb.jpg,\n").unwrap_err();
        assert_eq!(error, "val.csv: line 4: `b.jpg` has no class");
        let error = parse("a.jpg cat\nb.jpg\n").unwrap_err();
        assert_eq!(error, "val.csv: line 2: `b.jpg` has no class");
        let error = parse("a.jpg,cat\n,dog\n").unwrap_err();
        assert_eq!(error, "val.csv: line 2: class `dog` has no file name");
    }

    #[test]
    fn rows_that_agree_count_once_and_rows_that_contradict_are_refused() {
        let labels = parse("a cat\nb dog\na cat\nc cow\n").unwrap();
        let names: Vec<_> = labels.names().collect();
        assert_eq!(names, [(1, "a"), (2, "b"), (4, "c")]);
        assert_eq!(
            parse("a,cat\n\nb,dog\na,dog\n").unwrap_err(),
            "val.csv: line 4: `a` has class `dog`, on line 1 it has `cat`: keep one of them"
        );
    }

    #[test]
    fn a_file_without_rows_is_refused() {
        for text in ["", "\n\r\n", "# only a comment\n", "\u{FEFF}"] {
            assert_eq!(
                parse(text).unwrap_err(),
                "val.csv is empty: expected a row for every image"
            );
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_refused_with_its_line() {
        let error = Labels::parse("val.csv", b"a cat\nb d\xFFg\n", None).unwrap_err();
        assert_eq!(
            error,
            "val.csv: line 2 is not utf-8: save the file as utf-8"
        );
    }

    proptest! {
        #[test]
        fn any_table_parses_back(
            files in proptest::collection::btree_map("[^\r\n]+", "[a-z][^\r\n]{0,5}", 1..20)
        ) {
            let files: BTreeMap<_, _> =
                files.iter().map(|(name, class)| (name.as_str(), class.trim())).collect();
            let quoted = csv::QuoteStyle::Always;
            let mut table = csv::WriterBuilder::new().quote_style(quoted).from_writer(Vec::new());
            table.write_record(["filename", "class"]).unwrap();
            for (name, class) in &files {
                table.write_record([name, class]).unwrap();
            }
            let labels = Labels::parse("t", &table.into_inner().unwrap(), None).unwrap();
            let classes: BTreeSet<_> = files.values().copied().collect();
            prop_assert!(labels.classes().iter().eq(classes));
            prop_assert!(labels.names().map(|(_, name)| name).eq(files.keys().copied()));
            for (name, class_name) in files {
                let found = class(&labels, name);
                prop_assert_eq!(found.as_deref(), Some(class_name));
            }
        }

        #[test]
        fn no_text_panics(
            text in "([a-c0-9n,\t \"#/.\r\n-]|n0000000[12]|\u{FEFF}|é){0,40}",
            synsets in proptest::option::of("([12] )?(n0000000[12]|[a-c0-9 \n]){1,8}"),
            path: Vec<u8>,
        ) {
            let synsets = synsets.as_ref().map(|text| ("s", text.as_bytes()));
            if let Ok(labels) = Labels::parse("t", text.as_bytes(), synsets) {
                let in_range = |label: u32| (label as usize) < labels.classes().len();
                let _ = labels.by_name(&path);
                for (_, name) in labels.names() {
                    prop_assert!(labels.by_name(name.as_bytes()).is_some_and(in_range));
                }
            }
        }

        #[test]
        fn no_bytes_panic(text: Vec<u8>, synsets: Option<Vec<u8>>) {
            let _ = Labels::parse("t", &text, synsets.as_deref().map(|text| ("s", text)));
        }
    }
}
