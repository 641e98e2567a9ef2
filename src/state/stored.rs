//! All of the protocol under one name: stored plans, claims, lists of samples, and what is done.

pub use crate::state::claims::{claim, claimed, generations, load, of_generation, plans, stored};
pub use crate::state::done::{done, footer, records, unpacked};
pub use crate::state::names::{
    Part, claim_name, generations_of, plan_file, samples_name, source_name,
};
pub use crate::state::plans::{Stored, load_id, stored_names};
pub use crate::state::refusals::{check_ours, refuse_later, refuse_later_snapshot};
pub use crate::state::samples::{
    are_planned, each_line, each_sample, lines, list_bytes, put_samples, samples,
};
pub use crate::state::storing::{check_exclusive, store, store_beside};
