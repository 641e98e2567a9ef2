//! What a store is told of a dataset, which knows nothing of datasets itself: its directories, and where its shards lie.

use crate::model::manifest::STATE;
use crate::model::name::{RECORD_DIR, SHARD_DIR};
use crate::publish::readers;
use crate::store::Layout;

/// The layout of every dataset that this program writes; the directories of reader indexes are those that the readers name.
pub(crate) fn layout() -> Layout {
    let mut directories = vec![SHARD_DIR, RECORD_DIR];
    directories.extend(readers::directories());
    directories.push(STATE);
    Layout {
        directories,
        in_storage_class: "data/",
        probe: "_shardpack/probe",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_told_of_every_directory_once() {
        let layout = layout();
        let expected = ["data", "index", ".nv-meta", "_shardpack"];
        assert_eq!(layout.directories, expected);
        assert_eq!(layout.in_storage_class, format!("{SHARD_DIR}/"));
        assert!(layout.probe.starts_with(STATE));
    }
}
