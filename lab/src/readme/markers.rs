//! The comments between which a document's tables stand.

const BEGIN: &str = "<!-- table: ";
const FROM: &str = " from ";
const CLOSE: &str = " -->";
const END: &str = "<!-- end of table -->";

/// The document with the lines between each pair of comments replaced by what `table` makes of
/// the table's name and of the file that it is from: the file that it is from now, and its lines.
///
/// # Errors
///
/// Comments that are not whole, and those of `table`.
pub fn replaced(
    text: &str,
    mut table: impl FnMut(&str, &str) -> Result<(String, String), String>,
) -> Result<String, String> {
    let mut written = String::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some(begins) = line.strip_prefix(BEGIN) else {
            if line == END {
                return Err(format!("line {}: a table ends that did not begin", at + 1));
            }
            written += line;
            written.push('\n');
            continue;
        };
        let named = begins.strip_suffix(CLOSE).and_then(|b| b.split_once(FROM));
        let (name, file) =
            named.ok_or_else(|| format!("line {}: not `{BEGIN}NAME from FILE{CLOSE}`", at + 1))?;
        let mut inside = lines.by_ref().map(|(_, line)| line);
        if inside.find(|line| *line == END || line.starts_with(BEGIN)) != Some(END) {
            return Err(format!("line {}: table `{name}` has no `{END}`", at + 1));
        }
        let (file, rows) = table(name, file)?;
        written += &format!("{BEGIN}{name}{FROM}{file}{CLOSE}\n\n{rows}\n{END}\n");
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_b(text: &str) -> Result<String, String> {
        replaced(text, |name, file| {
            assert_eq!((name, file), ("maps", "a.jsonl"));
            Ok(("b.jsonl".to_owned(), "| new |\n".to_owned()))
        })
    }

    #[test]
    fn what_stands_between_the_comments_is_replaced() {
        let before = "x\n<!-- table: maps from a.jsonl -->\nold\n\n<!-- end of table -->\ny\n";
        let after = with_b(before).expect("whole");
        let begin = "x\n<!-- table: maps from b.jsonl -->\n\n";
        assert_eq!(
            after,
            format!("{begin}| new |\n\n<!-- end of table -->\ny\n")
        );
        assert_eq!(with_b("no table\n").expect("none"), "no table\n");
    }

    #[test]
    fn comments_that_are_not_whole_are_refused() {
        for (text, problem) in [
            (
                "<!-- table: maps from a.jsonl -->\n",
                "line 1: table `maps` has no",
            ),
            ("a\n<!-- table: maps -->\n", "line 2: not `"),
            ("<!-- end of table -->\n", "line 1: a table ends"),
        ] {
            let error = with_b(text).expect_err("not whole");
            assert!(error.contains(problem), "{error}");
        }
    }
}
