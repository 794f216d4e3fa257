//! What commands of a queue do beyond rows and their session, where all clients notice it. `EXEC`
//! may run its queue several times, and may give it up in the end. So it collects these effects,
//! and has them once, when it has committed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::clients::list::Client;
use crate::clients::pause::Scope;

/// A change that `CLIENT PAUSE` or `CLIENT UNPAUSE` makes.
pub(crate) enum PauseChange {
    /// A pause of so long begins.
    Begin(Duration, Scope),
    /// It ends.
    End,
}

/// See the module.
#[derive(Default)]
pub(crate) struct OutsideEffects {
    /// A checkpoint is taken in the background.
    pub(crate) saves: bool,
    /// These connections end, by their ids.
    pub(crate) ended: BTreeMap<u64, Arc<Client>>,
    /// Pauses begin and end, in this order.
    pub(crate) pauses: Vec<PauseChange>,
}
