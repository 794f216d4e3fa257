//! Listening sockets: TCP ports, and Unix domain sockets, whose files are made and removed here.

use std::fs::{self, File, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mio::net::{TcpListener, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::stream::Stream;
use crate::error::{Error, Result};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// How often, and how long between, a folder is asked for that another server has locked: for as
/// long as it makes its socket.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// A socket at which clients connect. It does not block.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        #[expect(dead_code, reason = "removed when it is dropped")]
        file: SocketFile,
    },
}

impl Listener {
    /// Listens at an address, and at which: port 0 takes a free one.
    ///
    /// # Errors
    /// [`Error::Bind`].
    pub(crate) fn tcp(address: SocketAddr) -> Result<(Listener, SocketAddr)> {
        let bind = || -> io::Result<(Listener, SocketAddr)> {
            let domain = Domain::for_address(address);
            let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.listen(BACKLOG)?;
            socket.set_nonblocking(true)?;
            let listener = std::net::TcpListener::from(socket);
            let bound = listener.local_addr()?;
            Ok((Listener::Tcp(TcpListener::from_std(listener)), bound))
        };
        bind().map_err(|source| Error::Bind { address, source })
    }

    /// Listens at a file, which is made, and removed again when the listener is dropped. One that
    /// a server has left that is gone is replaced.
    ///
    /// # Errors
    /// [`Error::BindUnix`].
    pub(crate) fn unix(path: &Path, mode: u32) -> Result<Listener> {
        let bind = || -> io::Result<Listener> {
            // Until it listens, another server that looks would take the socket for one left over.
            let _alone = lock_folder(path);
            check_free(path)?;
            remove_if_there(path)?;
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            let allowed = Permissions::from_mode(mode);
            // The file gets the mode of the socket: at no time can others connect.
            let descriptor = File::from(OwnedFd::from(socket.try_clone()?));
            descriptor.set_permissions(allowed.clone())?;
            socket.bind(&SockAddr::unix(path)?)?;
            let file = SocketFile::new(path)?;
            // What the process's umask has taken away.
            fs::set_permissions(path, allowed)?;
            socket.listen(BACKLOG)?;
            socket.set_nonblocking(true)?;
            let listener = std::os::unix::net::UnixListener::from(OwnedFd::from(socket));
            Ok(Listener::Unix {
                listener: UnixListener::from_std(listener),
                file,
            })
        };
        bind().map_err(|source| Error::BindUnix {
            path: path.to_owned(),
            source,
        })
    }

    /// Has a poll tell when somebody waits to be accepted.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Listener::Unix { listener, .. } => {
                registry.register(listener, token, Interest::READABLE)
            }
        }
    }

    /// Accepts a connection.
    ///
    /// # Errors
    /// `WouldBlock` if nobody waits, and what the system says.
    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => Ok(Stream::Tcp(listener.accept()?.0)),
            Listener::Unix { listener, .. } => {
                // Without the client's own address, which nobody wants: the system tells one of the
                // greatest length in more bytes than an address has, and mio panics at it.
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                let stream = accept_with(listener, flags)?;
                Ok(Stream::Unix(UnixStream::from_std(stream.into())))
            }
        }
    }
}

/// Whether a server can listen at a file: nothing is there, or a socket whose server is gone.
///
/// # Errors
/// Something else is there, or the path is too long for a socket.
pub(crate) fn check_free(path: &Path) -> io::Result<()> {
    let address = SockAddr::unix(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => io::Error::new(
            error.kind(),
            format!(
                "its {} bytes are more than the path of a socket may have (about 100)",
                path.as_os_str().len()
            ),
        ),
        _ => error,
    })?;
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return check_folder(path),
        Err(error) => return Err(error),
    };
    if !found.is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is something that is no socket",
        ));
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // Whoever has many clients waiting is there as well.
    socket.set_nonblocking(true)?;
    match socket.connect(&address) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.raw_os_error() == Some(Errno::PROTOTYPE.raw_os_error()) => {
            Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "somebody receives datagrams there",
            ))
        }
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another server listens there",
        )),
    }
}

/// The folder of a file.
fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().unwrap_or(path);
    match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    }
}

/// Keeps other servers from making sockets in the folder of a file until the lock is dropped.
/// `None` where the folder cannot be locked, or somebody else keeps it locked.
fn lock_folder(path: &Path) -> Option<File> {
    use rustix::fs::{FlockOperation, flock};
    let folder = File::open(folder_of(path)).ok()?;
    for _ in 0..LOCK_TRIES {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
            outcome => return outcome.ok().map(|()| folder),
        }
    }
    None
}

/// Whether a file can be made: its folder is there, and can be written.
fn check_folder(path: &Path) -> io::Result<()> {
    use rustix::fs::{Access, access};
    let folder = folder_of(path);
    let shown = folder.display();
    access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| {
        let error = io::Error::from(errno);
        let text = match error.kind() {
            io::ErrorKind::NotFound => format!("there is no folder {shown}"),
            _ => format!("nothing can be made in the folder {shown}: {error}"),
        };
        io::Error::new(error.kind(), text)
    })
}

/// A name of a file that other spellings of its path have as well.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    let folder = fs::canonicalize(folder_of(path)).ok();
    let whole = folder.zip(path.file_name());
    whole.map_or_else(|| path.to_owned(), |(folder, name)| folder.join(name))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// The file of a Unix domain socket, until it is dropped.
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Which file it is: device and number.
    identity: (u64, u64),
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<SocketFile> {
        Ok(SocketFile {
            path: path.to_owned(),
            identity: identity_of(path)?,
        })
    }
}

fn identity_of(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another server may have put its own there, after somebody had removed ours.
        if identity_of(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix { listener, .. } => listener.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(outcome: Result<Listener>) -> io::ErrorKind {
        match outcome.err().unwrap() {
            Error::BindUnix { source, .. } => source.kind(),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_socket_file_comes_and_goes_with_its_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = Listener::unix(&path, 0o640).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(
            kind_of(Listener::unix(&path, 0o600)),
            io::ErrorKind::AddrInUse
        );
        drop(listener);
        assert!(!path.exists());
        // One that a killed server has left.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let listener = Listener::unix(&path, 0o777).unwrap();
        // Somebody removed it, and another server came: that one's file stays.
        fs::remove_file(&path).unwrap();
        let other = Listener::unix(&path, 0o600).unwrap();
        drop(listener);
        assert!(path.exists());
        drop(other);
    }

    #[test]
    fn of_two_servers_in_one_moment_one_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        for _ in 0..200 {
            drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
            let both = std::sync::Barrier::new(2);
            let start = || {
                both.wait();
                Listener::unix(&path, 0o600).ok()
            };
            let started = std::thread::scope(|scope| {
                [scope.spawn(start), scope.spawn(start)].map(|thread| thread.join().unwrap())
            });
            assert_eq!(started.iter().flatten().count(), 1);
            std::os::unix::net::UnixStream::connect(&path).unwrap();
            drop(started);
            assert!(!path.exists());
        }
    }

    #[test]
    fn nothing_else_is_replaced_by_a_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        fs::write(&path, b"precious").unwrap();
        let refused = kind_of(Listener::unix(&path, 0o600));
        assert_eq!(refused, io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        let refused = kind_of(Listener::unix(folder.path(), 0o600));
        assert_eq!(refused, io::ErrorKind::AlreadyExists);
        let nowhere = folder.path().join("nowhere/socket");
        assert_eq!(
            kind_of(Listener::unix(&nowhere, 0o600)),
            io::ErrorKind::NotFound
        );
        let long = folder.path().join("x".repeat(200));
        let refused = Listener::unix(&long, 0o600).err().unwrap().to_string();
        assert!(refused.contains("bytes are more than"), "{refused}");
        let datagrams = folder.path().join("datagrams");
        let receiver = std::os::unix::net::UnixDatagram::bind(&datagrams).unwrap();
        let refused = Listener::unix(&datagrams, 0o600).err().unwrap().to_string();
        assert!(refused.contains("receives datagrams"), "{refused}");
        // One that nobody receives from any more is left over like any other.
        drop(receiver);
        drop(Listener::unix(&datagrams, 0o600).unwrap());
    }
}
