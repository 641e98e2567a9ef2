//! What walks through the source's archives found, kept beside the plan: who lists the same source again need not walk again.
//!
//! No part of the plan: it says nothing that the source does not say too. So it is never damage if it is missing or cannot be read.

use crate::base::error::Result;
use crate::state::names::walks_name;
use crate::store::{Sink, Source};

/// Has the source know again what was found when the plan of this id was made.
pub(crate) fn recall(sink: &dyn Sink, id: &str, source: &dyn Source) -> Result<()> {
    if let Some(walks) = sink.get(&walks_name(id))? {
        source.recall(walks.into());
    }
    Ok(())
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
