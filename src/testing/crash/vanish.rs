//! The source vanishes at every step of reading it, as a file system does that is unmounted: an outage, told shortly. When it is back, the same
//! command makes the same bytes.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::base::error::Kind;
use crate::store::{Step, Steps};

/// What happens to the source.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Vanishing {
    /// Its directory is not there.
    Root,
    /// Its directory is there and empty.
    Mount,
    /// One of its classes is not there.
    Class,
}

const WAYS: [Vanishing; 3] = [Vanishing::Root, Vanishing::Mount, Vanishing::Class];

/// A source that vanishes right before the step of this number, of those that read it.
struct Source {
    root: PathBuf,
    away: PathBuf,
    way: Vanishing,
    at: usize,
    steps: AtomicUsize,
    gone: Mutex<bool>,
}

impl Source {
    fn new(data: &Data, way: Vanishing, at: usize, away: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            root: data.dir.path().to_owned(),
            away,
            way,
            at,
            steps: AtomicUsize::new(0),
            gone: Mutex::new(false),
        })
    }

    /// What of it is moved.
    fn moved(&self) -> PathBuf {
        match self.way {
            Vanishing::Class => self.root.join("b"),
            _ => self.root.clone(),
        }
    }

    fn steps(self: &Arc<Self>) -> Steps {
        let source = Arc::clone(self);
        Steps::observed_by(move |step: Step<'_>| {
            let reads = !step.taken && step.path.starts_with(&source.root);
            if reads && source.steps.fetch_add(1, Ordering::SeqCst) == source.at {
                source.vanish();
            }
            Ok(())
        })
    }

    fn vanish(&self) {
        let mut gone = self.gone.lock().unwrap();
        std::fs::rename(self.moved(), &self.away).unwrap();
        if self.way == Vanishing::Mount {
            std::fs::create_dir(&self.root).unwrap();
        }
        *gone = true;
    }

    /// Whether it was away, which it is not any more.
    fn comes_back(&self) -> bool {
        let mut gone = self.gone.lock().unwrap();
        if *gone {
            if self.way == Vanishing::Mount {
                std::fs::remove_dir(&self.root).unwrap();
            }
            std::fs::rename(&self.away, self.moved()).unwrap();
        }
        std::mem::take(&mut gone)
    }
}

fn vanishes(data: &dyn Fn() -> Arc<Data>, earlier: &[Verb]) {
    let whole = data();
    let before = undisturbed(World::local(&whole), &Tree::new(), earlier);
    let expected = undisturbed(World::local(&whole), &before, CONVERT);
    let mut outages = 0;
    for way in WAYS {
        // What is not there when the root is listed is not known to have been there.
        let first = match (way, earlier) {
            (Vanishing::Root, _) => 0,
            _ => 1,
        };
        for at in first.. {
            let world = World::local(&whole);
            world.fill(&before);
            let away = directory();
            let source = Source::new(&whole, way, at, away.path().join("source"));
            let good = Ending::good(Level::Operations);
            let mut running = world.running(&good);
            running.access.steps = source.steps();
            let sink = world.sink(&running, &good).unwrap();
            let planning = whole.planning(1);
            let ended = command::convert::on(&sink, &planning, Policy::Fail, None, false, &running);
            let vanished = source.comes_back();
            let context = format!("{way:?} at {at}, {earlier:?}");
            match ended {
                Ok(_) => {}
                Err(error) => {
                    outages += 1;
                    assert_eq!(error.kind(), Kind::Transient, "{context}: {error}");
                    let text = error.to_string();
                    assert!(text.lines().count() == 1 && text.len() < 400, "{text}");
                    assert!(vanished, "{context}: {error}");
                }
            }
            world.succeeds(CONVERT);
            assert_same(&world.tree(), &expected, &context);
            if !vanished {
                break;
            }
        }
    }
    assert!(outages > 20, "{outages}");
}

#[test]
fn a_source_that_vanishes_at_any_step_is_an_outage() {
    vanishes(&Data::small, &[]);
}

#[test]
fn a_source_that_vanishes_while_a_dataset_grows_is_an_outage() {
    vanishes(&Data::grown, EARLY);
}
