//! Archives that nobody wants: they are not even opened.

use std::fmt;
use std::sync::Arc;

/// Says of a path whether all that lies there is left out.
type Test = dyn Fn(&[u8]) -> bool + Send + Sync;

/// Which archives of a source need not be opened, because all that is in them is left out.
#[derive(Clone, Default)]
pub(crate) struct LeftOut(Option<Arc<(String, Box<Test>)>>);

impl LeftOut {
    /// What `test` says of paths below the source; `rule` is the same for the same test, and no other.
    pub(crate) fn new(rule: String, test: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new((rule, Box::new(test)))))
    }

    /// Whether the file or directory at this path is left out.
    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.0.as_ref().is_some_and(|rule| (rule.1)(path))
    }

    /// What tells it from other rules.
    pub(super) fn rule(&self) -> &str {
        self.0.as_ref().map_or("", |rule| &rule.0)
    }
}

impl fmt::Debug for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeftOut").field(&self.rule()).finish()
    }
}
