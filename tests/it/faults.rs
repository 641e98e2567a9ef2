//! A hostile world around the program: steps on a disk that fail, commands that run just before one, process ids that are not its own.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// A step on a disk that fails, or before which something happens; `fixtures/faults.c` knows its names.
#[derive(Clone, Copy)]
pub(crate) struct Fault<'a> {
    step: &'a str,
    path: &'a str,
    after: usize,
}

impl<'a> Fault<'a> {
    /// Steps of this name about paths with this in them.
    pub(crate) fn at(step: &'a str, path: &'a str) -> Self {
        Self {
            step,
            path,
            after: 0,
        }
    }

    /// So many of them go well before.
    pub(crate) fn after(self, after: usize) -> Self {
        Self { after, ..self }
    }

    /// From then on each fails with this error number.
    pub(crate) fn says(self, command: &mut Command, errno: i32) {
        self.into_world_of(command)
            .env("FAULT_ERRNO", errno.to_string());
    }

    /// A command for the shell is run before the next of them, once.
    pub(crate) fn runs(self, command: &mut Command, shell: &str) {
        self.into_world_of(command).env("FAULT_DO", shell);
    }

    fn into_world_of(self, command: &mut Command) -> &mut Command {
        let library = library().expect("asked for by who needs it");
        command
            .env("LD_PRELOAD", library)
            .env("FAULT_STEP", self.step)
            .env("FAULT_PATH", self.path)
            .env("FAULT_AFTER", self.after.to_string())
    }
}

/// The preloaded library, compiled once; `None`, said on stderr, where that cannot be done.
pub(crate) fn library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<tempfile::TempPath>> = OnceLock::new();
    let made = LIBRARY.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/faults.c");
        let place = tempfile::Builder::new()
            .suffix(".so")
            .tempfile_in(env!("CARGO_TARGET_TMPDIR"))
            .unwrap()
            .into_temp_path();
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-shared", "-fPIC", source, "-ldl", "-o"]);
        match compile.arg(&place).output() {
            Ok(made) if made.status.success() => Some(place),
            failed => {
                eprintln!("skipped: no C compiler makes {source}: {failed:?}");
                None
            }
        }
    });
    made.as_deref()
}

/// The command in a process id namespace of its own, where it is number 1, as in a container; `None`, said on stderr, where that is not permitted.
pub(crate) fn in_a_container(command: &Command) -> Option<Command> {
    static HOW: OnceLock<Option<&[&str]>> = OnceLock::new();
    let how = HOW.get_or_init(|| {
        let ways: [&[&str]; 2] = [
            &["--pid", "--fork", "--kill-child"],
            &["--map-root-user", "--pid", "--fork", "--kill-child"],
        ];
        let works = |way: &&[&str]| {
            let tried = Command::new("unshare").args(*way).arg("true").output();
            tried.is_ok_and(|tried| tried.status.success())
        };
        let how = ways.into_iter().find(works);
        if how.is_none() {
            eprintln!("skipped: no process id namespaces are permitted here");
        }
        how
    });
    let mut outer = Command::new("unshare");
    outer.args(*how.as_ref()?);
    outer.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    Some(outer)
}
