//! Which samples `ls` lists.

use globset::GlobSet;

use super::recipe::globs;
use crate::base::error::Result;
use crate::cli::flags as cli;

/// Which samples to list, and how.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The dataset.
    pub destination: String,
    /// What the key or the source path must match, or a directory above it; `None` for all.
    pub only: Option<GlobSet>,
    /// Samples at most.
    pub limit: u64,
    /// An object of JSON each.
    pub json: bool,
}

/// Checks which samples to list.
pub(crate) fn listing(args: &cli::LsArgs) -> Result<Listing> {
    let glob = args.glob.as_deref().map(|glob| glob.trim_end_matches('/'));
    let only = glob.map(|glob| globs("GLOB", &[glob.to_owned(), format!("{glob}/**")]));
    Ok(Listing {
        destination: args.dataset.destination.clone(),
        only: only.transpose()?,
        limit: args.limit.unwrap_or(u64::MAX),
        json: args.common.json,
    })
}
