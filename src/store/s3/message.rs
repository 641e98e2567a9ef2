//! Texts of others that become part of a message: short, on one line, and without secrets.

use std::error::Error;

/// Longest piece of a server's message that is passed on, in characters.
const MESSAGE_CHARS: usize = 200;

/// Texts of an error and what caused it, innermost last, without saying the same twice.
pub(super) fn chain(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !texts.iter().any(|known| known.contains(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    texts
}

/// A text on one line, cut after [`MESSAGE_CHARS`] characters.
pub(super) fn short(text: &str) -> String {
    let text = text.trim().trim_end_matches('.');
    let mut short: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MESSAGE_CHARS)
        .collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// A URL without user, password and query.
pub(super) fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            let host = host.rsplit('@').next().unwrap_or_default();
            let slash = if path.is_empty() { "" } else { "/" };
            format!("{scheme}://{host}{slash}{path}")
        }
        None => url.rsplit('@').next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_told_without_what_might_be_secret() {
        for (url, shown) in [
            ("http://user:pass@host:9000/x?token=1", "http://host:9000/x"),
            ("https://s3.example.com", "https://s3.example.com"),
            ("host:9000", "host:9000"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }

    #[test]
    fn a_servers_message_is_shortened_to_one_line() {
        let text = short(&format!("a\nb{}", "x".repeat(500)));
        assert!(text.starts_with("a bxx") && text.ends_with('…'));
        assert!(text.chars().count() <= MESSAGE_CHARS + 1);
    }
}
