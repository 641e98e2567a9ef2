//! Dividing samples into splits anew.

use std::collections::BTreeMap;

use crate::base::units::count_text;
use crate::model::selection::Share;
use crate::source::choose::{Choice, Draw, is_within};
use crate::source::samples::Scan;

/// Gives every sample its new split; says how many each has.
pub(super) fn divide(scan: &mut Scan, choice: &Choice<'_>) -> String {
    let selection = choice.selection;
    let places = choice.places(scan, Draw::Split);
    // Where each part ends, in billionths of all.
    let ends: Vec<u32> = selection
        .resplit
        .iter()
        .scan(0, |end, part| {
            *end += part.share.billionths();
            Some(*end)
        })
        .collect();
    let last = ends.len().saturating_sub(1);
    let mut parts = vec![0; scan.entries.len()];
    if selection.stratify {
        let mut of_class: BTreeMap<u32, Vec<(u64, usize)>> = BTreeMap::new();
        for (at, (entry, place)) in scan.entries.iter().zip(places).enumerate() {
            of_class.entry(entry.label).or_default().push((place, at));
        }
        for mut class in of_class.into_values() {
            class.sort_unstable();
            let all = class.len() as u64;
            for (number, (_, at)) in (0u64..).zip(class) {
                // By the middle of its place among those of its class.
                let middle = (2 * number + 1) * u64::from(Share::WHOLE) / (2 * all);
                let part = ends.iter().position(|&end| middle < u64::from(end));
                parts[at] = part.unwrap_or(last);
            }
        }
    } else {
        for (part, place) in parts.iter_mut().zip(places) {
            *part = ends
                .iter()
                .position(|&end| is_within(place, end))
                .unwrap_or(last);
        }
    }
    let names: Vec<String> = selection.resplit.iter().map(|p| p.name.clone()).collect();
    scan.split_anew(&names, &parts);
    let mut sizes = vec![0u64; names.len()];
    parts.iter().for_each(|&part| sizes[part] += 1);
    let each = names.iter().zip(sizes);
    let each = each.map(|(name, size)| format!("{name} {}", count_text(size)));
    let stratify = if selection.stratify {
        " --stratify"
    } else {
        ""
    };
    format!(
        "--resplit{stratify}: {}",
        each.collect::<Vec<_>>().join(", ")
    )
}
