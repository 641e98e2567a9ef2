//! The bare minimum that the same work costs on this machine: what no converter and no verifier can beat by much.
//!
//! Both run as processes of their own, like everything they are compared with.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The default of `--jobs`.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Opens and reads every file below `tree` whole, checksums it, and appends 512 bytes and the file to one output
/// for each thread in `out`: no format, no order, no index.
pub(crate) fn copy(tree: &Path, out: &Path, fsync: bool) -> io::Result<u32> {
    let files = list(tree)?;
    on_all_cores(|thread, next| {
        let mut output = File::create(out.join(format!("floor-{thread}")))?;
        let mut buffer = vec![0; 512];
        let mut sum = 0;
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            buffer.truncate(512);
            File::open(path)?.read_to_end(&mut buffer)?;
            sum ^= crc32fast::hash(&buffer[512..]);
            output.write_all(&buffer)?;
        }
        if fsync {
            output.sync_all()?;
        }
        Ok(sum)
    })
}

/// Reads every file below `tree` in steps of 1 MiB and checksums it.
pub(crate) fn read(tree: &Path) -> io::Result<u32> {
    let files = list(tree)?;
    on_all_cores(|_, next| {
        let mut buffer = vec![0; 1 << 20];
        let mut sum = 0;
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut file = File::open(path)?;
            let mut hasher = crc32fast::Hasher::new();
            loop {
                match file.read(&mut buffer)? {
                    0 => break,
                    length => hasher.update(&buffer[..length]),
                }
            }
            sum ^= hasher.finalize();
        }
        Ok(sum)
    })
}

/// Bytes of all files below `tree`.
pub(crate) fn bytes(tree: &Path) -> io::Result<u64> {
    list(tree)?
        .iter()
        .try_fold(0, |sum, path| Ok(sum + fs::metadata(path)?.len()))
}

/// Runs `work` once per core; together they count through the files with the shared counter.
fn on_all_cores<F>(work: F) -> io::Result<u32>
where
    F: Fn(usize, &AtomicUsize) -> io::Result<u32> + Sync,
{
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores())
            .map(|thread| {
                let (work, next) = (&work, &next);
                scope.spawn(move || work(thread, next))
            })
            .collect();
        threads.into_iter().try_fold(0, |sum, thread| {
            Ok(sum ^ thread.join().expect("no thread panics")?)
        })
    })
}

fn list(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let found = if entry.file_type()?.is_dir() {
                &mut dirs
            } else {
                &mut files
            };
            found.push(entry.path());
        }
    }
    Ok(files)
}
