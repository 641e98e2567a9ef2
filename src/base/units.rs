//! Numbers as people write and read them: sizes with SI or IEC units, counts, durations.

/// A larger file is streamed, not held. A constant, so that no image is looked at differently because `--memory` differs.
pub(crate) const STREAM_ABOVE_BYTES: u64 = 4 << 20;

/// Most samples that a shard is believed to have: sums and products of such numbers do not overflow.
pub(crate) const MOST_SAMPLES: u64 = 1 << 40;
/// Most bytes that an object is believed to have.
pub(crate) const MOST_BYTES: u64 = 1 << 50;

/// Whether numbers that were read somewhere are each at most `most`, and all together can be summed.
pub(crate) fn are_sane(numbers: impl IntoIterator<Item = u64>, most: u64) -> bool {
    let mut sum = 0u64;
    numbers.into_iter().all(|number| {
        sum = sum.saturating_add(number);
        number <= most && sum <= MOST_BYTES * 64
    })
}

/// Bytes of a size such as `1GB`, `64MiB`, `1.5G` or `4096`; units of 1000 unless there is an `i`.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let bad = || format!("`{text}` is no size: write for example 1GB, 64MiB or 4096");
    let unit = unit.trim().to_ascii_lowercase();
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (letter, base) = match unit.strip_suffix('i') {
        Some(letter) if !letter.is_empty() => (letter, 1024u64),
        Some(_) => return Err(bad()),
        None => (unit, 1000),
    };
    let power = match letter {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(bad()),
    };
    let scale = base.pow(power);
    let number = number.replace('_', "");
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(scale).ok_or_else(bad);
    }
    let value = number.parse::<f64>().map_err(|_| bad())? * scale as f64;
    if (0.0..1e18).contains(&value) {
        Ok(value.round() as u64)
    } else {
        Err(bad())
    }
}

/// A time such as `90s`, `30m`, `12h` or `7d`; the unit is needed.
pub(crate) fn parse_time(text: &str) -> Result<std::time::Duration, String> {
    let text = text.trim();
    let bad = || format!("`{text}` is no time: write for example 90s, 30m, 12h or 7d");
    let unit = text.chars().next_back().ok_or_else(bad)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(bad()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| bad())?;
    let seconds = number.checked_mul(seconds).ok_or_else(bad)?;
    Ok(std::time::Duration::from_secs(seconds))
}

/// A part of a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Share {
    /// So many.
    Count(u64),
    /// So many in a hundred, from 0 to 100.
    Percent(f64),
}

impl Default for Share {
    /// One percent.
    fn default() -> Self {
        Share::Percent(1.0)
    }
}

impl Share {
    /// How many of `whole` that is, rounded up: a percent of something is never nothing, unless it is 0 %.
    pub(crate) fn of(self, whole: u64) -> u64 {
        match self {
            Share::Count(count) => count,
            Share::Percent(percent) => (whole as f64 * percent / 100.0).ceil() as u64,
        }
    }
}

/// The number of a text such as `1%` or `0.5 %`, from 0 to 100.
pub(crate) fn parse_percent(text: &str) -> Option<f64> {
    let number = text.trim().strip_suffix('%')?.trim().parse().ok()?;
    (0.0..=100.0).contains(&number).then_some(number)
}

/// A part such as `1%` or `500`.
pub(crate) fn parse_share(text: &str) -> Option<Share> {
    let count = || text.trim().replace('_', "").parse().ok();
    let percent = parse_percent(text).map(Share::Percent);
    percent.or_else(|| count().map(Share::Count))
}

/// A size in decimal units with three digits.
pub(crate) fn bytes_text(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "kB", "MB", "GB", "TB", "PB"] {
        if value < 999.5 || unit == "PB" {
            return match unit {
                "B" => format!("{bytes} B"),
                _ if value < 9.995 => format!("{value:.2} {unit}"),
                _ if value < 99.95 => format!("{value:.1} {unit}"),
                _ => format!("{value:.0} {unit}"),
            };
        }
        value /= 1000.0;
    }
    format!("{bytes} B")
}

/// A size as it is typed, to the byte: `1GB`, `64MiB`, `4097`.
pub(crate) fn exact_bytes(bytes: u64) -> String {
    let units = [
        ("TB", 1_000_000_000_000),
        ("TiB", 1 << 40),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("kB", 1000),
        ("KiB", 1 << 10),
    ];
    let unit = units
        .iter()
        .find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit));
    match unit {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

/// A count with thousands set apart.
pub(crate) fn count_text(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun, which gets an `s` unless there is one.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count_text(count))
}

/// A number of classes.
pub(crate) fn classes(count: usize) -> String {
    let plural = if count == 1 { "class" } else { "classes" };
    format!("{} {plural}", count_text(count as u64))
}

/// A duration in its two largest units.
pub(crate) fn seconds_text(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        _ if seconds < 9.95 => format!("{:.1} s", seconds.max(0.0)),
        0..=119 => format!("{whole} s"),
        120..=7199 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        for (text, seconds) in [
            ("0s", 0),
            ("90s", 90),
            ("30m", 1800),
            ("12h", 43_200),
            ("7d", 604_800),
        ] {
            assert_eq!(parse_time(text).unwrap().as_secs(), seconds);
        }
        for text in ["", "5", "h", "1.5h", "-1s", "3w", "99999999999999999d", "ä"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_is_a_count_or_a_percentage() {
        for (text, of_1000) in [
            ("1%", 10),
            ("0.05 %", 1),
            ("0%", 0),
            ("100%", 1000),
            ("500", 500),
            ("0", 0),
        ] {
            assert_eq!(
                parse_share(text).map(|share| share.of(1000)),
                Some(of_1000),
                "{text}"
            );
        }
        for text in ["", "%", "101%", "-1%", "nan%", "-1", "1.5", "1 % of it"] {
            assert_eq!(parse_share(text), None, "{text}");
        }
        assert_eq!(Share::default().of(24), 1);
    }

    #[test]
    fn sizes_are_si_unless_they_say_iec() {
        for (text, bytes) in [
            ("1GB", 1_000_000_000),
            ("1GiB", 1 << 30),
            ("1g", 1_000_000_000),
            ("64MiB", 64 << 20),
            ("1.5 kB", 1500),
            ("0", 0),
            ("4096", 4096),
            ("1_000", 1000),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "GB",
            "1XB",
            "-1",
            "1iB",
            "99999999999PB",
            "1.2.3",
            "nan",
        ] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(bytes_text(999), "999 B");
        assert_eq!(bytes_text(1_005_000), "1.00 MB");
        assert_eq!(bytes_text(999_600), "1.00 MB");
        assert_eq!(bytes_text(147_900_000_000), "148 GB");
        for text in ["1GB", "60kB", "64MiB", "1500MB", "4097", "0", "3TiB"] {
            assert_eq!(exact_bytes(parse_bytes(text).unwrap()), text);
        }
        assert_eq!(count_text(1_281_167), "1,281,167");
        assert_eq!(count_text(12), "12");
        assert_eq!(counted(1, "shard"), "1 shard");
        assert_eq!(counted(2000, "shard"), "2,000 shards");
        assert_eq!(seconds_text(3.21), "3.2 s");
        assert_eq!(seconds_text(125.0), "2 min 05 s");
    }
}
