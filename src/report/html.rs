//! Text that becomes HTML. Names of classes and files come from strangers: nothing of them reaches a page but through [`text`].

use std::fmt::{self, Write};

use crate::base::text::show;

/// Characters of a name or reason at most; what is longer ends with an ellipsis.
const LONGEST: usize = 120;

/// A page under construction.
#[derive(Debug, Default)]
pub(super) struct Html(String);

impl Html {
    /// Adds markup of our own.
    pub(super) fn raw(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    /// Adds formatted markup, whose arguments are numbers or [`text`].
    pub(super) fn put(&mut self, markup: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(markup);
    }

    /// A row of a table: the first cell names it.
    pub(super) fn row(&mut self, name: &str, cells: &[String]) {
        self.put(format_args!(
            "<tr><th scope=\"row\"><bdi>{}</bdi></th>",
            text(name)
        ));
        for cell in cells {
            self.put(format_args!("<td class=\"n\">{}</td>", text(cell)));
        }
        self.raw("</tr>");
    }

    /// The start of a table with these columns, numbers in all but the first; the caller ends it with `</tbody></table></div>`.
    pub(super) fn table(&mut self, columns: &[&str]) {
        self.any_table("", columns);
    }

    /// The same; a browser lets its reader sort it, and search it by the first column.
    pub(super) fn sortable_table(&mut self, columns: &[&str]) {
        self.any_table(" class=\"sorts\"", columns);
    }

    fn any_table(&mut self, class: &str, columns: &[&str]) {
        // What is wider than a telephone is scrolled, with keys too.
        self.put(format_args!(
            "<div class=\"wide\" tabindex=\"0\"><table{class}><thead><tr>"
        ));
        for (i, column) in columns.iter().enumerate() {
            let class = if i == 0 { "" } else { " class=\"n\"" };
            self.put(format_args!(
                "<th scope=\"col\"{class}>{}</th>",
                text(column)
            ));
        }
        self.raw("</tr></thead><tbody>");
    }

    /// Ends a table.
    pub(super) fn end_table(&mut self) {
        self.raw("</tbody></table></div>");
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The page.
    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// Bytes as an address in a page holds them: RFC 4648, with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let all = three
            .iter()
            .fold(0, |all, byte| all << 8 | u32::from(*byte));
        let all = all << (8 * (3 - three.len()));
        for digit in 0..4 {
            out.push(match digit <= three.len() {
                true => char::from(DIGITS[(all >> (18 - 6 * digit)) as usize & 63]),
                false => '=',
            });
        }
    }
    out
}

/// Text as HTML shows it: markup escaped, control characters and those that turn the direction of letters made visible, cut when
/// it is long.
pub(super) struct Text<'a> {
    text: &'a str,
    longest: usize,
    lines: bool,
}

/// Text of one line.
pub(super) fn text(text: &str) -> Text<'_> {
    Text {
        text,
        longest: LONGEST,
        lines: false,
    }
}

/// Text of many lines, cut after so many characters.
pub(super) fn lines(text: &str, longest: usize) -> Text<'_> {
    Text {
        text,
        longest,
        lines: true,
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, c) in self.text.chars().enumerate() {
            if i == self.longest {
                return f.write_char('…');
            }
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' if self.lines => f.write_char(c)?,
                c if c.is_control() => f.write_str(&show(c.encode_utf8(&mut [0; 4]).as_bytes()))?,
                // Marks, embeddings, overrides and isolates of direction; separators of lines; the byte order mark; no characters.
                '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{feff}' => {
                    write!(f, "\\u{{{:x}}}", c as u32)?;
                }
                c if c as u32 & 0xfffe == 0xfffe || ('\u{fdd0}'..='\u{fdef}').contains(&c) => {
                    write!(f, "\\u{{{:x}}}", c as u32)?;
                }
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("ab", "YWI="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xff, 0xfb, 0xf0]), "//vw");
    }

    #[test]
    fn nothing_of_a_name_is_markup_and_nothing_in_it_is_hidden() {
        for (name, shown) in [
            (
                "<script>alert('1')</script>",
                "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;",
            ),
            ("\" onload=\"x", "&quot; onload=&quot;x"),
            ("a&amp;b", "a&amp;amp;b"),
            ("a\0b\nc\u{85}", "a\\x00b\\x0ac\\xc2\\x85"),
            ("gpj.\u{202e}exe", "gpj.\\u{202e}exe"),
            ("\u{fffe}", "\\u{fffe}"),
            ("ねこ é 🐈", "ねこ é 🐈"),
        ] {
            assert_eq!(text(name).to_string(), shown);
        }
        assert_eq!(
            text(&"x".repeat(300)).to_string().chars().count(),
            LONGEST + 1
        );
        assert_eq!(lines("a\nb\tc", 100).to_string(), "a\nb\\x09c");
    }
}
