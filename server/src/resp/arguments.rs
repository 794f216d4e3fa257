//! A command's arguments, which stay in the connection's input.

use crate::protocol::request::Span;

/// A command's arguments (without its name): ranges of the input buffer.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a> {
    input: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(input: &'a [u8], spans: &'a [Span]) -> Arguments<'a> {
        Arguments { input, spans }
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub(crate) fn get(&self, i: usize) -> Option<&'a [u8]> {
        self.spans.get(i).map(|span| span.of(self.input))
    }

    /// All from the `i`th on.
    pub(crate) fn from(&self, i: usize) -> Arguments<'a> {
        Arguments {
            input: self.input,
            spans: self.spans.get(i..).unwrap_or_default(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let input = self.input;
        self.spans.iter().map(move |span| span.of(input))
    }

    /// Consecutive pairs; a lone last argument is left out.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let input = self.input;
        self.spans
            .as_chunks::<2>()
            .0
            .iter()
            .map(move |[a, b]| (a.of(input), b.of(input)))
    }
}

impl std::ops::Index<usize> for Arguments<'_> {
    type Output = [u8];

    fn index(&self, i: usize) -> &[u8] {
        self.spans[i].of(self.input)
    }
}
