//! Text in plots.
//!
//! SVG neither wraps nor measures text, and a plot is drawn without knowing the reader's font.
//! Widths are therefore estimated on the generous side, so that text that is said to fit does
//! fit, and what does not fit is wrapped or cut with the whole of it in a tooltip.

use crate::escape::xml;
use crate::svg::drawn::Point;

/// The size of all text in plots, in pixels.
pub(crate) const SIZE: f64 = 12.0;

/// Widths of the printable ASCII characters in hundredths of an em, in DejaVu Sans: of the
/// fonts that `plot.css` asks for, the widest.
const ASCII: [u8; 95] = [
    32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 34, 34, 84, 84, 84, 53, 100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75,
    79, 60, 79, 69, 63, 61, 73, 68, 99, 69, 61, 69, 39, 34, 39, 84, 50, 50, 61, 63, 55, 63, 62, 35,
    63, 63, 28, 28, 58, 28, 97, 63, 61, 63, 63, 41, 52, 39, 63, 59, 82, 59, 59, 52, 64, 34, 64, 84,
];

/// How much wider bold text is at most, on average over a word.
const BOLD: f64 = 1.16;

/// An upper estimate of the width of `text` at [`SIZE`], in pixels.
pub(crate) fn width(text: &str) -> f64 {
    let hundredths = |character: char| {
        let place = (character as usize).checked_sub(0x20);
        let ascii = place.and_then(|place| ASCII.get(place).copied());
        ascii.unwrap_or(match character {
            '⁰'..='⁻' | '–' | '·' => 53,
            '\u{A0}'..='\u{24F}' => 84,
            _ => 105,
        })
    };
    let width: f64 = text.chars().map(|c| f64::from(hundredths(c))).sum();
    width / 100.0 * SIZE
}

/// The same for bold text.
pub(crate) fn bold_width(text: &str) -> f64 {
    width(text) * BOLD
}

/// `text` cut to at most `most` pixels.
pub(crate) fn cut(text: &str, most: f64) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut out = String::new();
    for character in text.chars() {
        let longer = format!("{out}{character}…");
        if width(&longer) > most {
            break;
        }
        out.push(character);
    }
    format!("{}…", out.trim_end())
}

/// Bold `text` cut to at most `most` pixels.
pub(crate) fn cut_bold(text: &str, most: f64) -> String {
    cut(text, most / BOLD)
}

/// `text` in at most `lines` lines of at most `most` pixels, the last one cut.
pub(crate) fn wrap(text: &str, most: f64, lines: usize) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        if let Some(line) = out.last_mut() {
            let longer = format!("{line} {word}");
            if width(&longer) <= most || out.len() == lines {
                *out.last_mut().expect("has a line") = longer;
                continue;
            }
        }
        out.push(word.to_owned());
    }
    out.iter().map(|line| cut(line, most)).collect()
}

/// Where text stands relative to its position.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A text element. `class` may be empty; `cut_from` is the whole text, if `text` is only a
/// part of it.
pub(super) fn element(
    at: Point,
    anchor: Anchor,
    class: &str,
    text: &str,
    cut_from: &str,
) -> String {
    let Point { x, y } = at;
    let anchor = match anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let class = if class.is_empty() {
        String::new()
    } else {
        format!(" class=\"{class}\"")
    };
    let title = if text == cut_from {
        String::new()
    } else {
        format!("<title>{}</title>", xml(cut_from))
    };
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\"{anchor}{class}>{title}{}</text>\n",
        xml(text)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_fits() {
        let name = "a contender with quite a long name and 日本語 in it";
        for most in [20.0, 80.0, 160.0, 1000.0] {
            assert!(width(&cut(name, most)) <= most, "{}", cut(name, most));
        }
        assert_eq!(cut("short", 100.0), "short");
    }

    #[test]
    fn wrapped_lines_hold_all_words_or_say_that_they_do_not() {
        let text = "set decimal · threads 8 · value bytes 100";
        assert_eq!(wrap(text, 1000.0, 2), [text]);
        let lines = wrap(text, 150.0, 3);
        assert_eq!(lines.join(" "), text);
        let lines = wrap(text, 100.0, 2);
        assert_eq!(lines.len(), 2);
        assert!(lines[1].ends_with('…'));
    }
}
