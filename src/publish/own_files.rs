//! Files that people may complete, told apart from what this program wrote under their names.

use crate::base::checksum::crc_text;
use crate::base::error::Result;
use crate::model::manifest::Manifest;
use crate::publish::card::{CARD, earlier_card, render_card};
use crate::publish::readers::NamedFile;
use crate::publish::snapshots::snapshots_before;
use crate::store::Sink;

/// Snapshots before the last one that are looked at to tell what is ours.
const SNAPSHOTS: usize = 3;

/// What this program wrote under names of files that people may complete: what is none of that is theirs, and stays.
#[derive(Default)]
pub(super) struct OwnFiles {
    /// What this process put.
    pub(super) put: Vec<NamedFile>,
    /// Snapshots before: a run that ended between a snapshot and its manifest may have left what belongs to an earlier one.
    before: Option<Vec<Manifest>>,
}

impl OwnFiles {
    /// Whether what lies there, which is not that of this snapshot, is to stay: somebody wrote it.
    pub(super) fn stays(
        &mut self,
        sink: &dyn Sink,
        manifest: &Manifest,
        name: &str,
    ) -> Result<bool> {
        let Some(content) = sink.get(name)? else {
            return Ok(false);
        };
        let crc32 = crc_text(crc32fast::hash(&content));
        let is_of = |manifest: &Manifest| match name {
            CARD => {
                let is = |card: String| card.as_bytes() == content;
                is(render_card(manifest)) || earlier_card(manifest).is_some_and(is)
            }
            _ => {
                let mut files = manifest.indexes.iter();
                files.any(|file| file.name == name && file.crc32 == crc32)
            }
        };
        let mut put = self.put.iter();
        if put.any(|(put, written)| put == name && *written == content) {
            return Ok(false);
        }
        if name == CARD && earlier_card(manifest).is_some_and(|card| card.as_bytes() == content) {
            return Ok(false);
        }
        let before = match &mut self.before {
            Some(before) => before,
            before => before.insert(snapshots_before(sink, manifest, SNAPSHOTS)?),
        };
        let stays = !before.iter().any(is_of);
        if stays {
            tracing::info!("{name} was changed by somebody: it stays as it is");
        }
        Ok(stays)
    }
}
