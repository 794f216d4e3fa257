//! Whether the heads of records, the first bytes of their keys behind the prefix, tell most of them
//! apart (§5.1).

use crate::configuration::Configuration;
use crate::node::dense::Part;
use crate::node::leaf::FormOf;
use crate::node::search::{head_of, head_of_word};
use crate::node::slotted::Comparison;

/// Whether few of the records have the head of the one before: with the paper's
/// [`Thresholds`](crate::configuration::Thresholds), fewer than a sixteenth.
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
                heads.are_few::<C>(places.map(|place| image.head_at::<Comparison<C>>(place)))
            }
            (FormOf::Comparison, Some(more @ 1..=8)) if C::HEAD > 0 => heads
                .are_few::<C>(places.map(|place| image.head_beyond::<Comparison<C>>(place, more))),
            (FormOf::Fingerprint, Some(more)) => {
                let word = |place| image.fingerprinted_word(place, more);
                heads.are_few::<C>(places.map(|place| head_of_word::<Comparison<C>>(word(place))))
            }
            _ => {
                let (key, taken) = (&mut Vec::new(), image.taken::<C>(places));
                heads.are_few::<C>(taken.map(|place| {
                    image.node_key::<C>(place, key);
                    head_of::<Comparison<C>>(&key[prefix..])
                }))
            }
        }
    });
    are_few.all(|few| few) && (few_of::<C>(heads.equal, heads.count) || heads.count == 0)
}

/// Whether so many equal heads are few of `count`.
#[inline(always)]
fn few_of<C: Configuration>(equal: usize, count: usize) -> bool {
    64 * equal < C::THRESHOLDS.equal_heads_64ths * count
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
    /// Whether, with these, few of what there may be are as the one before.
    #[inline(always)]
    fn are_few<C: Configuration>(&mut self, mut heads: impl Iterator<Item = u64>) -> bool {
        heads.all(|head| {
            self.count += 1;
            self.equal += usize::from(self.last.replace(head) == Some(head));
            few_of::<C>(self.equal, self.most)
        })
    }
}
