//! Flags become one checked value; the only place where two flags meet. Errors here come before the first byte is read.
//!
//! What was typed ([`flags`](crate::cli::flags)) comes in, values that no stage has to doubt go out.

mod bench;
mod choosing;
mod differences;
mod estimate;
mod given;
mod listing;
mod planning;
mod recipe;
mod running;
mod verbs;

pub(crate) use bench::{Benching, benching};
pub(crate) use differences::differences;
pub(crate) use estimate::{Estimate, Price};
pub(crate) use listing::{Listing, listing};
pub(crate) use planning::{Files, Planning, columns, planning};
pub(crate) use recipe::{
    check_build, check_recipe, default_recipe, left_out, named_splits, rules_of,
};
pub(crate) use running::{
    Limits, Running, SummaryPlace, check_stdout, command_line, deadline, now, progress_file,
    running, summary,
};
pub(crate) use verbs::{CopyScope, FanOut, PlanOutputs, SamplePart, VerifyScope};
pub(crate) use verbs::{
    copy, fan_out, gc, index_names, level, part, plan_outputs, policy, verify_scope, worker,
};
