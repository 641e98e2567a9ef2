//! What walks through the source's archives found, kept beside the plan: who lists the same source again need not walk again.
//!
//! No part of the plan: it says nothing that the source does not say too. So it is never damage if it is missing or cannot be read.

use crate::base::error::Result;
use crate::model::recipe::Arrangement;
use crate::source::dataset::{Listed, list};
use crate::state::names::walks_name;
use crate::store::{Sink, Source};

/// Lists a source, arranged as the user says if he does, of which the plan of this id was made, if there is one: what was found then in archives that did not change is taken from there.
pub(crate) fn list_again(
    sink: &dyn Sink,
    id: Option<&str>,
    source: &dyn Source,
    layout: Option<Arrangement>,
) -> Result<Listed> {
    let walks = || match id {
        Some(id) => Ok(sink.get(&walks_name(id))?.unwrap_or_default().into()),
        None => Ok(Vec::new()),
    };
    list(source, layout, || source.list_again(&walks))
}

/// Keeps what the source found when it was listed last, beside the plan of this id. Only time is lost where that fails.
pub(crate) fn keep(sink: &dyn Sink, id: &str, source: &dyn Source) {
    let walks = source.walks();
    if walks.is_empty() {
        return;
    }
    let name = walks_name(id);
    let kept = sink
        .get(&name)
        .map(|kept| kept.is_some_and(|kept| kept == walks));
    let put = kept.and_then(|kept| match kept {
        true => Ok(()),
        false => sink.put(&name, &walks),
    });
    if let Err(error) = put {
        tracing::warn!("{error}: the next run walks through the archives again");
    }
}
