//! Where a repair gets images from: the source, opened only when something is lost that nothing else has.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use crate::base::error::{Error, Kind, Result};
use crate::model::listing::Listing;
use crate::model::manifest::ShardEntry;
use crate::model::sample::Field;
use crate::plan::budget::Budget;
use crate::state::plans::Stored;
use crate::store::Source;

/// A source and its files.
type Opened = (Box<dyn Source>, Listing);

/// Opens and lists the source, or says why there is none.
pub(super) type OpenSource<'a> = dyn Fn() -> Result<Opened> + 'a;
/// Gives the fields that lie in no file of their own, but in tables of the source.
type ReadTables<'a> = dyn Fn(&dyn Source) -> Result<Vec<Field>> + 'a;

/// The source's files, opened and listed when the first is needed.
pub(crate) struct SourceFiles<'a> {
    open: Box<OpenSource<'a>>,
    tables: Box<ReadTables<'a>>,
    opened: OnceCell<Result<Opened, (Kind, String)>>,
}

impl<'a> SourceFiles<'a> {
    /// Those of the source that `open` gives, and what `tables` reads there.
    pub(crate) fn new(
        open: impl Fn() -> Result<Opened> + 'a,
        tables: impl Fn(&dyn Source) -> Result<Vec<Field>> + 'a,
    ) -> Self {
        Self {
            open: Box::new(open),
            tables: Box::new(tables),
            opened: OnceCell::new(),
        }
    }

    /// The fields that lie in no file of their own, as tables of the source have them now.
    pub(super) fn in_tables(&self, source: &dyn Source) -> Result<Vec<Field>> {
        (self.tables)(source)
    }

    /// The source and its files as they are now. What failed once is not tried again.
    pub(crate) fn get(&self) -> Result<(&dyn Source, &Listing)> {
        let opened = self.opened.get_or_init(|| {
            (self.open)().map_err(|error: Error| (error.kind(), error.to_string()))
        });
        match opened {
            Ok((source, listing)) => Ok((source.as_ref(), listing)),
            Err((kind, what)) => Err(Error::new(*kind, what.clone())),
        }
    }
}

/// Where the images are, and the plan by which they were packed.
pub(crate) struct Origin<'a> {
    /// Where samples come from.
    pub source: &'a dyn Source,
    /// The plan, with the versions that the files have now.
    pub stored: Stored,
    /// What each packer may hold.
    pub budget: Budget,
    /// Shards that cannot be packed again, each with the reason.
    pub refused: BTreeMap<String, String>,
}

/// Finds the origin of shards of the plan with this digest.
pub(crate) type FindOrigin<'f, 'o> = dyn FnMut(&str, &[&ShardEntry]) -> Result<Origin<'o>> + 'f;
