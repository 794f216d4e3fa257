//! Names from results files, made harmless.
//!
//! Contenders, key sets and reasons are text of any kind. Each renderer passes all of it through
//! one of these functions, so that a name can neither open a tag nor break a table.

use std::fmt::Write;

/// Text for HTML and SVG, in elements and in quoted attributes. Characters that XML cannot
/// hold become the replacement character.
pub(crate) fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' | '\r' => out.push(' '),
            c if c.is_control() || ('\u{FFFE}'..='\u{FFFF}').contains(&c) => out.push('\u{FFFD}'),
            // Marks that turn the direction of what follows, far beyond the name itself.
            '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
    out
}

/// Sentences for HTML, in which what stands between backticks becomes code.
pub(crate) fn prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return xml(text);
    }
    let rendered = parts.iter().enumerate().map(|(i, part)| match i % 2 {
        0 => xml(part),
        _ => format!("<code>{}</code>", xml(part)),
    });
    rendered.collect()
}

/// A name as code in Markdown, also within a table.
pub(crate) fn code(text: &str) -> String {
    format!("`{}`", text.replace(['`', '|', '\n', '\r'], " "))
}

/// Text for Markdown, in paragraphs and in tables.
pub(crate) fn markdown(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    for (i, &character) in characters.iter().enumerate() {
        let inside_word = |c: Option<&char>| c.is_some_and(|c| c.is_alphanumeric());
        match character {
            '\\' | '`' | '*' | '[' | ']' | '|' | '~' | '#' => {
                out.push('\\');
                out.push(character);
            }
            // Within a word an underscore means itself.
            '_' if i > 0
                && inside_word(characters.get(i - 1))
                && inside_word(characters.get(i + 1)) =>
            {
                out.push('_');
            }
            '_' => out.push_str("\\_"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if c.is_whitespace() => out.push(' '),
            c if c.is_control() => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
    out
}

/// A fenced block of Markdown that nothing in `text` can close.
pub(crate) fn fenced(text: &str) -> String {
    let longest = text
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}sh\n{}\n{fence}\n", text.replace(['\n', '\r'], " "))
}

/// A name for files and anchors: lower-case ASCII letters, digits and single hyphens.
pub(crate) fn slug(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if out.len() >= 60 {
            break;
        }
        if character.is_ascii_alphanumeric() {
            out.push(character.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    let trimmed = out.trim_end_matches('-');
    if trimmed.is_empty() { "x" } else { trimmed }.to_owned()
}

/// `slug`, with a number behind it if `taken` has it already.
pub(crate) fn unique_slug(text: &str, taken: &mut Vec<String>) -> String {
    let base = slug(text);
    let mut name = base.clone();
    let mut number = 2;
    while taken.contains(&name) {
        name.clear();
        // Writing to a String cannot fail.
        let _ = write!(name, "{base}-{number}");
        number += 1;
    }
    taken.push(name.clone());
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hostile_survives() {
        assert_eq!(
            xml("<script>alert('\"&')</script>\0"),
            "&lt;script&gt;alert(&#39;&quot;&amp;&#39;)&lt;/script&gt;\u{FFFD}"
        );
        assert_eq!(
            markdown("a|b\n`c` *d* read_update _e_ <b>"),
            "a\\|b \\`c\\` \\*d\\* read_update \\_e\\_ &lt;b&gt;"
        );
        assert_eq!(
            prose("use `a<b` & see"),
            "use <code>a&lt;b</code> &amp; see"
        );
        assert_eq!(prose("an `odd tick"), "an `odd tick");
        assert_eq!(code("a`|b"), "`a  b`");
        assert_eq!(fenced("a\n```b"), "````sh\na ```b\n````\n");
    }

    #[test]
    fn slugs_are_plain_and_differ() {
        let mut taken = Vec::new();
        assert_eq!(
            unique_slug("masstree/Fig 9: get", &mut taken),
            "masstree-fig-9-get"
        );
        assert_eq!(
            unique_slug("masstree/fig-9 get", &mut taken),
            "masstree-fig-9-get-2"
        );
        assert_eq!(unique_slug("../../", &mut taken), "x");
        assert_eq!(slug(&"long ".repeat(40)).len(), 59);
    }
}
