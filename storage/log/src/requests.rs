//! Requests to the flusher, and its answers.

use std::sync::mpsc::{Receiver, Sender};

use crate::entries::IncarnationEnd;
use crate::segment::SegmentWriter;

/// Where a rotation cut the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotationPoint {
    /// The generation that began: every commit appended after the rotation is in it or later.
    pub generation: u32,
    /// Every commit of this epoch or an earlier one is durable, in older generations.
    pub epoch: u64,
    /// The end of what is durable now: what a copy of the database made now would record in its
    /// manifest ([`Manifest::record_end`](crate::Manifest::record_end)) to be complete without the
    /// newer generation.
    pub end: IncarnationEnd,
}

/// What the flusher is asked to do besides its routine.
#[derive(Default)]
pub(crate) struct Requests {
    /// Make everything up to this epoch durable.
    pub(crate) durable: u64,
    pub(crate) rotation: Option<Rotation>,
    pub(crate) stop: bool,
}

pub(crate) struct Rotation {
    pub(crate) generation: u32,
    pub(crate) writers: Vec<SegmentWriter>,
    pub(crate) events: Sender<RotationProgress>,
    /// Receives a message, or is closed, when what runs at the cut is over.
    pub(crate) go_on: Receiver<()>,
}

/// What the flusher reports of a rotation.
pub(crate) enum RotationProgress {
    /// The flusher holds the locks of all shards: the caller may act at the cut.
    Cut,
    Done(RotationPoint),
}
