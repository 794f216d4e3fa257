//! Which event loop a server runs.

use std::io;

use hedgerow_ring::Ring;

use crate::error::{Error, Result};
use crate::options::EventLoop;

/// What `auto` chooses where the kernel has io_uring: with many connections it takes less of the
/// processor's time for each request, with one it does what epoll does.
const AUTO: EventLoop = EventLoop::IoUring;

/// The loop that was asked for, or that `auto` chooses, and its workers' rings.
///
/// # Errors
/// [`Error::EventLoop`] if io_uring was asked for by name and the kernel or a policy forbids it.
pub(crate) fn choose(asked: EventLoop, workers: usize) -> Result<(EventLoop, Vec<Option<Ring>>)> {
    choose_by(asked, workers, Ring::new)
}

fn choose_by<R>(
    asked: EventLoop,
    workers: usize,
    make: impl Fn() -> io::Result<R>,
) -> Result<(EventLoop, Vec<Option<R>>)> {
    let wanted = match asked {
        EventLoop::Auto => AUTO,
        named => named,
    };
    if wanted == EventLoop::IoUring {
        let rings: io::Result<Vec<R>> = (0..workers).map(|_| make()).collect();
        match rings {
            Ok(rings) => return Ok((wanted, rings.into_iter().map(Some).collect())),
            Err(source) if asked == EventLoop::IoUring => return Err(Error::EventLoop { source }),
            Err(_) => {}
        }
    }
    Ok((EventLoop::Epoll, (0..workers).map(|_| None).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden() -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    #[test]
    fn a_loop_asked_for_by_name_is_taken_or_refused() {
        let (chosen, rings) = choose_by(EventLoop::IoUring, 2, || Ok(())).unwrap();
        assert!(chosen == EventLoop::IoUring && rings == [Some(()), Some(())]);
        let refused = choose_by(EventLoop::IoUring, 2, forbidden).unwrap_err();
        assert!(refused.to_string().contains("--event-loop"), "{refused}");
        let (chosen, rings) = choose_by(EventLoop::Epoll, 1, || Ok(())).unwrap();
        assert!(chosen == EventLoop::Epoll && rings == [None]);
    }

    #[test]
    fn auto_is_never_refused() {
        let (chosen, rings) = choose_by(EventLoop::Auto, 1, forbidden).unwrap();
        assert!(chosen == EventLoop::Epoll && rings == [None]);
        let (chosen, _) = choose_by(EventLoop::Auto, 1, || Ok(())).unwrap();
        assert_eq!(chosen, AUTO);
    }
}
