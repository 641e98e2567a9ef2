//! What walks through archives that others made.

use std::fs;

use shardpack::model::sample::Field;
use shardpack::store::{self, Access};

/// The names that an archive may have; the first byte chooses one.
const NAMES: [&str; 4] = ["x.tar", "x.zip", "x.tar.gz", "x.tar.zst"];

/// An archive that is listed, and all of whose members are read: as many bytes as the listing says, or an error.
pub(crate) fn archive(data: &[u8]) {
    let Some((name, content)) = data.split_first() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAMES[usize::from(*name) % NAMES.len()]);
    fs::write(&path, content).unwrap();
    let access = Access {
        reads: Some(1),
        open_files: 16,
        memory: 64 << 20,
        ..Access::default()
    };
    let source = store::source(path.to_str().unwrap(), &access).unwrap();
    let Ok(listing) = source.list() else {
        return;
    };
    for problem in &listing.problems {
        let text = format!("{}{}", problem.path, problem.detail);
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
    let again = source.list().unwrap();
    assert_eq!(again.files(), listing.files());
    for dir in &listing.dirs {
        for i in 0..dir.len() {
            let file = dir.file(i);
            let version = file.version();
            assert_eq!(version.to_string().parse().as_ref(), Ok(&version));
            let field = Field {
                name: "jpg".to_owned(),
                path: dir.path_of(i),
                size: file.size,
                version,
            };
            let parts: Vec<_> = dir.path.split(|&b| b == b'/').collect();
            assert!(!parts.contains(&&b".."[..]) && !dir.path.starts_with(b"/"));
            if file.size <= 1 << 20
                && let Ok(content) = source.start(&field).wait()
            {
                assert_eq!(content.len() as u64, file.size);
            }
        }
    }
}
