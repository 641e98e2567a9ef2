//! Where plans and claims lie in a destination: `_shardpack/claims/00000001.json`, and what is below `_shardpack/plan/ID/`.

use crate::model::manifest::STATE;

/// Directory of the claims.
pub(super) const CLAIMS: &str = "_shardpack/claims";

/// Last part of [`source_name`].
const SOURCE_FILE: &str = "source";

/// Last part of [`walks_name`].
const WALKS_FILE: &str = "walks";

/// Name of the plan of this id.
pub(super) fn plan_name(id: &str) -> String {
    format!("{STATE}/plan/{id}/plan.json")
}

/// Name of the list of samples of the plan of this id.
pub(crate) fn samples_name(id: &str) -> String {
    format!("{STATE}/plan/{id}/samples.jsonl.zst")
}

/// Name of the object that says where the source was at planning time, for `pack` without `--source`. Not part of the plan: it says
/// nothing of the data.
pub(crate) fn source_name(id: &str) -> String {
    format!("{STATE}/plan/{id}/{SOURCE_FILE}")
}

/// Name of the object that says what lies in the source's archives, for whoever lists the same source again. Not part of the plan.
pub(super) fn walks_name(id: &str) -> String {
    format!("{STATE}/plan/{id}/{WALKS_FILE}")
}

/// Name of the claim of a generation.
pub(crate) fn claim_name(generation: u64) -> String {
    format!("{CLAIMS}/{generation:08}.json")
}

/// The generations whose claims are among these names, in order.
pub(crate) fn generations_of<'a>(names: impl Iterator<Item = &'a str>) -> Vec<u64> {
    let number = |name: &str| {
        let number = name.strip_prefix(CLAIMS)?.strip_prefix('/')?;
        number.strip_suffix(".json")?.parse().ok()
    };
    let mut numbers: Vec<u64> = names.filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// What a stored plan consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The plan itself.
    Plan,
    /// Its samples.
    Samples,
    /// Where the source was.
    Source,
    /// What lies in its archives.
    Walks,
}

/// The id of the plan that an object is a part of, and which part.
pub(crate) fn plan_file(name: &str) -> Option<(&str, Part)> {
    let (id, file) = name
        .strip_prefix(STATE)?
        .strip_prefix("/plan/")?
        .split_once('/')?;
    let part = match file {
        "plan.json" => Part::Plan,
        "samples.jsonl.zst" => Part::Samples,
        SOURCE_FILE => Part::Source,
        WALKS_FILE => Part::Walks,
        _ => return None,
    };
    is_id(id).then_some((id, part))
}

/// Whether this can be the id of a plan: 64 hexadecimal digits.
pub(super) fn is_id(id: &str) -> bool {
    id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit())
}
