//! What the terminal at stderr can show.

use std::env;
use std::io::{self, IsTerminal as _};

/// Columns where nobody says how many there are.
const COLUMNS: usize = 80;

/// Whether stderr is a terminal that shows colours, and nobody asked for none (`NO_COLOR`).
pub(crate) fn has_colours() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
    io::stderr().is_terminal() && !is_dumb && !is_set("NO_COLOR")
}

/// Columns of the terminal at stderr.
pub(crate) fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { COLUMNS } else { columns }
}
