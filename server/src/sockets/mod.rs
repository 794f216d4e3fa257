//! The sockets that clients connect to and through: TCP ports, Unix domain sockets, and UDP ports
//! for small requests. All other code sees one kind of each.
//!
//! A Unix domain socket has a name in the file system, and who may open that file may connect. So
//! it needs no password to be safe on a machine of several users, and it spares both sides the work
//! of TCP.
//!
//! | module | what |
//! |---|---|
//! | `listener` | listening, accepting; the file of a Unix domain socket from its making to its removal |
//! | `stream` | one connection |
//! | `datagram` | a request of one datagram, and its reply: to all other code a short connection |
//! | `udp_port` | a worker's UDP port |
//! | `address` | one end of a connection, as clients and logs see it |

pub(crate) mod address;
pub(crate) mod datagram;
pub(crate) mod listener;
pub(crate) mod stream;
pub(crate) mod udp_port;
