//! Parameters of experiments in words.

use serde_json::Value;

use crate::number;

/// Parameters in words: `keys 10,000,000 · set decimal`.
pub(crate) fn describe<'a>(parameters: impl Iterator<Item = (&'a String, &'a Value)>) -> String {
    let words: Vec<String> = parameters
        .map(|(name, value)| {
            let name = name.replace('_', " ");
            match value {
                Value::Bool(true) => name,
                Value::Bool(false) => format!("no {name}"),
                Value::Null => format!("{name} unset"),
                Value::String(text) => format!("{name} {text}"),
                Value::Number(number) => {
                    let value = number.as_f64().unwrap_or_default();
                    format!("{name} {}", number::plain(value))
                }
                other => format!("{name} {other}"),
            }
        })
        .collect();
    words.join(" · ")
}
