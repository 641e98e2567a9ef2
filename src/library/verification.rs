//! Proving that a dataset is intact.

use crate::base::error::{Error, Result};
use crate::cli::settings::VerifyScope;
use crate::cli::verbs::verify::verify;
use crate::library::Options;
use crate::upkeep::verify::{Level, Report};

/// Reads a dataset again and says what is wrong with it.
///
/// ```
/// use shardpack::{Level, Verification};
///
/// # let dir = tempfile::tempdir()?;
/// # let (source, destination) = (dir.path().join("images"), dir.path().join("shards"));
/// # std::fs::create_dir_all(source.join("cat"))?;
/// # std::fs::write(source.join("cat/1.ppm"), b"P6 1 1 255\n\0\0\0")?;
/// # let (source, destination) = (source.display().to_string(), destination.display().to_string());
/// # shardpack::Conversion::new(&source, &destination).run()?;
/// let report = Verification::new(&destination).level(Level::Data).run()?;
/// assert!(report.is_intact());
///
/// let shard = format!("{destination}/data/train-00000.tar");
/// let mut bytes = std::fs::read(&shard)?;
/// bytes[600] ^= 1;
/// std::fs::write(&shard, bytes)?;
/// for finding in Verification::new(&destination).run()?.findings {
///     println!("{finding}"); // the shard, the sample, the bytes, expected and actual
///     assert_eq!(finding.object, "data/train-00000.tar");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Verification {
    destination: String,
    level: Level,
    source: Option<String>,
    options: Options,
}

impl Verification {
    /// A verification of the dataset at a path or `s3://bucket/prefix`, at [`Level::Data`].
    pub fn new(destination: impl Into<String>) -> Self {
        Self {
            destination: destination.into(),
            level: Level::Data,
            source: None,
            options: Options::default(),
        }
    }

    /// How deep to look.
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Compares with the files at this source, at [`Level::Source`].
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into());
        self.level = Level::Source;
        self
    }

    /// How to run.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Verifies. Damage is a finding in the report, not an error.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Usage`](crate::ErrorKind::Usage) for [`Level::Source`] without a source or a source at another level,
    /// [`Damage`](crate::ErrorKind::Damage) for a manifest that cannot be read at all, and others where the store cannot be read.
    pub fn run(&self) -> Result<Report> {
        if (self.level == Level::Source) != self.source.is_some() {
            return Err(Error::usage(
                "a source is compared at the level `Source`, and nowhere else",
            ));
        }
        let running = self.options.running()?;
        let scope = VerifyScope::default();
        let source = self.source.as_deref();
        let verified = verify(&self.destination, self.level, source, &scope, &running)?;
        Ok(verified.report)
    }
}
