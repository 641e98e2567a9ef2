//! Flags become one checked value; the only place where two flags meet. Errors here come before the first byte is read.
//!
//! What was typed ([`flags`](crate::cli::flags)) comes in, values that no stage has to doubt go out.

mod planning;
mod recipe;
mod running;
mod verbs;

pub(crate) use planning::planning;
pub use planning::{Files, Planning};
pub(crate) use recipe::left_out;
pub use recipe::rules_of;
pub use running::{Running, deadline};
pub(crate) use running::{now, progress_file, running};
pub use verbs::{FanOut, Part, PlanOutputs, VerifyScope};
pub(crate) use verbs::{
    fan_out, gc, index_names, level, part, plan_outputs, policy, verify_scope, worker,
};
