//! Receives from many sockets, or sends to many, in one system call: io_uring (Linux).
//!
//! ```text
//! Ring::batch ─► Batch::receive, Batch::send, one per socket ─► Batch::run ─► Outcomes
//!                                                               one io_uring_enter
//! ```
//!
//! A batch borrows its sockets and buffers, and [`Batch::run`] returns only when the kernel has
//! completed all of it. So no transfer outlives its batch: a connection can be closed, and the
//! number of its socket used again, as if the transfers had been calls of their own. No transfer
//! waits: one that would is completed at once with [`WouldBlock`](std::io::ErrorKind::WouldBlock).
//! Somebody else, such as epoll, has to say which sockets are ready.
//!
//! Where the kernel has no io_uring, or a policy forbids it, [`Ring::new`] is an error. A ring that
//! fails later does nothing more: transfers without an outcome are left to the caller.
#![warn(missing_docs)]

#[cfg(not(target_os = "linux"))]
mod absent;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
pub use absent::{Batch, Outcomes, Ring};
#[cfg(target_os = "linux")]
pub use linux::{Batch, Outcomes, Ring};
