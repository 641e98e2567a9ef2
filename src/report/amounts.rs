//! Numbers in the words of a report.

use crate::base::units::bytes_text;

/// So many, of how many if that is known; a phase that counts something else has nothing of it.
pub(super) fn amount_of(done: u64, all: u64, name: impl Fn(u64) -> String) -> String {
    match (done, all) {
        (0, _) => "–".to_owned(),
        (done, all) if all <= done => name(done),
        (done, all) => format!("{} of {}", name(done), name(all)),
    }
}

pub(super) fn per_second(amount: u64, seconds: f64) -> String {
    match amount {
        0 => "–".to_owned(),
        _ if seconds < 0.001 => "–".to_owned(),
        _ => format!("{}/s", bytes_text((amount as f64 / seconds) as u64)),
    }
}

pub(super) fn percent(part: u64, whole: u64) -> String {
    match part as f64 / whole.max(1) as f64 * 100.0 {
        share if part > 0 && share < 0.05 => "< 0.1 %".to_owned(),
        share => format!("{share:.1} %"),
    }
}

pub(super) fn megapixels(pixels: u64) -> String {
    match pixels as f64 / 1e6 {
        _ if pixels < 1000 => format!("{pixels} px"),
        small if small < 0.0995 => format!("{small:.3} MP"),
        small if small < 9.95 => format!("{small:.2} MP"),
        large => format!("{large:.1} MP"),
    }
}
