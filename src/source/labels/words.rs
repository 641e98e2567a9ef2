//! Lines, words and numbers of label files and synset files.

/// The first word and the rest of a trimmed line, if there is a rest.
pub(super) fn two_words(line: &str) -> Option<(&str, &str)> {
    line.split_once(char::is_whitespace)
        .map(|(first, rest)| (first, rest.trim_start()))
}

/// The first word of a trimmed line.
pub(super) fn first_word(line: &str) -> &str {
    two_words(line).map_or(line, |(first, _)| first)
}

/// Whether this is a WordNet id, such as `n03995372`.
pub(super) fn is_synset(word: &str) -> bool {
    word.strip_prefix('n')
        .is_some_and(|digits| digits.len() == 8 && is_number(digits))
}

/// Whether this is digits only.
pub(super) fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// The value of digits; past what fits, the largest there is, which every range check refuses.
pub(super) fn number(digits: &str) -> u64 {
    digits.parse().unwrap_or(u64::MAX)
}

/// Whether this is a number of any kind, `-1` and `3.0` included.
pub(super) fn looks_numeric(word: &str) -> bool {
    word.parse::<f64>().is_ok() && word.bytes().all(|byte| b"0123456789+-.".contains(&byte))
}

/// Trimmed lines with their numbers, without empty ones and comments.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = (1..).zip(text.lines().map(str::trim));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// The text of a file without its byte order mark; `name` is for the message.
pub(super) fn utf8<'a>(name: &str, text: &'a [u8]) -> Result<&'a str, String> {
    match std::str::from_utf8(text) {
        Ok(text) => Ok(text.strip_prefix('\u{FEFF}').unwrap_or(text)),
        Err(error) => {
            let before = &text[..error.valid_up_to()];
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            Err(format!(
                "{name}: line {line} is not utf-8: save the file as utf-8"
            ))
        }
    }
}
