//! The thread that brings gateways back into use, and closes connections that nobody uses.
//!
//! It is a thread of its own so that no caller's time goes into a host that answers nothing, and so
//! that gateways, which spend a thread on each connection, get theirs back.

use crate::connection::Fault;
use crate::pool::Pool;

/// Checks gateways that are down when their pauses are over, until the pool is closed. A gateway is
/// well if a new connection to it can be opened, which includes an answer to `getThriftServerType`.
pub(crate) fn run(pool: &Pool) {
    while let Some(due) = pool.await_checks() {
        for gateway in due {
            match pool.connect(gateway) {
                Ok(_closed_at_once) => pool.mark_healthy(gateway),
                Err(fault) => pool.mark_down(gateway, describe(&fault)),
            }
        }
    }
}

/// A fault in words.
pub(crate) fn describe(fault: &Fault) -> String {
    match fault {
        Fault::TimedOut(doing) => format!("it took too long for {doing}"),
        Fault::Io(why) | Fault::Malformed(why) => why.clone(),
        Fault::TooLong(bytes) => format!("its answer has {bytes} bytes"),
    }
}
