//! Bytes as text: for one line of a terminal, and as hexadecimal digits.

use std::fmt::Write;

/// Bytes as text on one line: `\xNN` for what is not UTF-8 and for control characters.
pub(crate) fn show(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() {
                let mut buffer = [0; 4];
                for byte in c.encode_utf8(&mut buffer).bytes() {
                    let _ = write!(out, "\\x{byte:02x}");
                }
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// A word as a shell takes it, to be pasted into a command line.
pub(crate) fn quoted(word: impl AsRef<[u8]>) -> String {
    let word = word.as_ref();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./:=@,+%".contains(byte);
    if !word.is_empty() && word.iter().all(plain) {
        return show(word);
    }
    match std::str::from_utf8(word) {
        Ok(text) if !text.contains(char::is_control) => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        // Bash, ksh and zsh take bytes so.
        _ => {
            let mut out = "$'".to_owned();
            for chunk in word.utf8_chunks() {
                for c in chunk.valid().chars() {
                    match c {
                        '\'' | '\\' => out.extend(['\\', c]),
                        c => out.push_str(&show(c.encode_utf8(&mut [0; 4]).as_bytes())),
                    }
                }
                out.push_str(&show(chunk.invalid()));
            }
            out.push('\'');
            out
        }
    }
}

/// The first so many of some words, with a sign that there are more.
pub(crate) fn first_of(words: impl ExactSizeIterator<Item = String>, most: usize) -> String {
    let more = if words.len() > most { ", …" } else { "" };
    let words: Vec<String> = words.take(most).collect();
    format!("{}{more}", words.join(", "))
}

/// Lower-case hexadecimal digits of `bytes`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        })
}

/// The bytes of hexadecimal digits, or `None` if they are not an even number of digits.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_word_is_one_word_for_a_shell() {
        for word in [
            "plain/a-b_c.jpg",
            "s3://bucket/x",
            "two words",
            "it's",
            "$HOME*",
            "",
            "a\nb'c\\d",
            "ö",
        ] {
            let line = format!("printf %s {}", quoted(word));
            let shell = std::process::Command::new("bash")
                .args(["-c", &line])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8_lossy(&shell.stdout), word, "{line}");
        }
        assert_eq!(quoted("s3://bucket/x"), "s3://bucket/x");
        assert_eq!(quoted(b"caf\xe9"), r"$'caf\xe9'");
    }
}
