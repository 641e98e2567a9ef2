//! Making again what is damaged.

use crate::base::error::Result;
use crate::cli::verbs::repair::repair;
use crate::library::Options;
use crate::store;
use crate::upkeep::repair::RepairOutcome;

/// Makes again what is damaged or missing in a dataset, byte for byte as it was published, from what is intact of it and from the source.
///
/// Nothing is written over unless the new bytes are known to be the published ones.
///
/// ```
/// use shardpack::{Repair, Verification};
///
/// # let dir = tempfile::tempdir()?;
/// # let (source, destination) = (dir.path().join("images"), dir.path().join("shards"));
/// # std::fs::create_dir_all(source.join("cat"))?;
/// # std::fs::write(source.join("cat/1.ppm"), b"P6 1 1 255\n\0\0\0")?;
/// # let (source, destination) = (source.display().to_string(), destination.display().to_string());
/// # shardpack::Conversion::new(&source, &destination).run()?;
/// std::fs::remove_file(format!("{destination}/data/train-00000.tar"))?;
///
/// let outcome = Repair::new(&destination).source(&source).run()?;
/// assert!(outcome.repaired.contains("data/train-00000.tar"));
/// assert!(outcome.lost.is_empty());
/// assert!(Verification::new(&destination).run()?.is_intact());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Repair {
    destination: String,
    source: Option<String>,
    dry_run: bool,
    options: Options,
}

impl Repair {
    /// A repair of the dataset at a path or `s3://bucket/prefix`.
    pub fn new(destination: impl Into<String>) -> Self {
        Self {
            destination: destination.into(),
            source: None,
            dry_run: false,
            options: Options::default(),
        }
    }

    /// Where the images are; where they were when the dataset was made if nothing is said.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Says what would be made again, and writes nothing.
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// How to run.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Repairs. What cannot be made again is in [`RepairOutcome::lost`] with the reason, and stays as it is.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Damage`](crate::ErrorKind::Damage) where not even a manifest can be made again,
    /// [`Source`](crate::ErrorKind::Source) for a source that was named and cannot be opened,
    /// [`Transient`](crate::ErrorKind::Transient) for an outage.
    pub fn run(&self) -> Result<RepairOutcome> {
        let running = self.options.running()?;
        let sink = store::sink(&self.destination, &running.access)?;
        let source = self.source.as_deref();
        let (_, outcome) = repair(sink.as_ref(), source, self.dry_run, &running)?;
        Ok(outcome)
    }
}
