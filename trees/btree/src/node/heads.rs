//! Whether the heads of records, the first bytes of their keys behind the prefix, tell most of them
//! apart (§5.1).

use crate::configuration::Configuration;
use crate::node::dense::Part;
use crate::node::leaf::FormOf;
use crate::node::search::{head_of, head_of_word};
use crate::node::slotted::Comparison;

/// Whether fewer than a sixteenth of the records have the head of the one before.
pub(crate) fn good_heads<C: Configuration, const PAGE: usize>(
    parts: &[Part<'_, PAGE>],
    prefix: usize,
) -> bool {
    let mut heads = Heads {
        most: parts.iter().map(|(_, places)| places.len()).sum(),
        ..Heads::default()
    };
    let mut are_few = parts.iter().map(|(image, places)| {
        let (places, more) = (places.clone(), prefix.checked_sub(image.prefix_len()));
        match (image.form::<C>(), more) {
            (FormOf::Comparison, Some(0)) if C::HEAD > 0 => {
                heads.are_few(places.map(|place| image.head_at::<Comparison<C>>(place)))
            }
            (FormOf::Comparison, Some(more @ 1..=8)) if C::HEAD > 0 => {
                heads.are_few(places.map(|place| image.head_beyond::<Comparison<C>>(place, more)))
            }
            (FormOf::Fingerprint, Some(more)) => {
                let word = |place| image.fingerprinted_word(place, more);
                heads.are_few(places.map(|place| head_of_word::<Comparison<C>>(word(place))))
            }
            _ => {
                let (key, taken) = (&mut Vec::new(), image.taken::<C>(places));
                heads.are_few(taken.map(|place| {
                    image.node_key::<C>(place, key);
                    head_of::<Comparison<C>>(&key[prefix..])
                }))
            }
        }
    });
    are_few.all(|few| few) && (16 * heads.equal < heads.count || heads.count == 0)
}

/// Heads that were looked at.
#[derive(Debug, Default)]
struct Heads {
    /// At most so many there are.
    most: usize,
    count: usize,
    equal: usize,
    last: Option<u64>,
}

impl Heads {
    /// Whether, with these, fewer than a sixteenth of what there may be is as the one before.
    #[inline(always)]
    fn are_few(&mut self, mut heads: impl Iterator<Item = u64>) -> bool {
        heads.all(|head| {
            self.count += 1;
            self.equal += usize::from(self.last.replace(head) == Some(head));
            16 * self.equal < self.most
        })
    }
}
