//! Congestion controls of existing TCP connections from the kernel's socket list (sock_diag(7)),
//! and the processes that hold these connections.

use crate::sys::netlink::{Message, Netlink, attribute, attributes, text};
use crate::sys::socket;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

/// `SOCK_DIAG_BY_FAMILY`, and the attribute that names the congestion control.
const BY_FAMILY: u16 = 20;
const CONG: u16 = 4;
/// Bit of the state ESTABLISHED in the request. Connections in other states are not listed: they
/// send no data, or only the rest of it.
const ESTABLISHED: u32 = 1 << 1;
const FIXED: usize = 72;

/// A TCP connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connection {
    /// Local and remote port.
    pub ports: (u16, u16),
    /// The congestion control of the connection.
    pub cc: String,
    /// Inode of the socket. [`holders`] maps it to processes.
    pub inode: u32,
}

/// All established TCP connections of this network namespace, over IPv4 and IPv6.
pub fn connections() -> io::Result<Vec<Connection>> {
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let head = [family as u8, libc::IPPROTO_TCP as u8, 1 << (CONG - 1), 0];
        let question = Message::new(BY_FAMILY, &[&head, &ESTABLISHED.to_ne_bytes(), &[0; 48]]);
        found.extend(
            Netlink::diag()?
                .list(question)?
                .iter()
                .filter_map(|body| read(body)),
        );
    }
    Ok(found)
}

fn read(body: &[u8]) -> Option<Connection> {
    let port = |at: usize| Some(u16::from_be_bytes(*body.get(at..at + 2)?.first_chunk()?));
    let told = attributes(body.get(FIXED..)?);
    Some(Connection {
        ports: (port(4)?, port(6)?),
        cc: attribute(&told, CONG).map(text)?,
        inode: u32::from_ne_bytes(*body.get(FIXED - 4..FIXED)?.first_chunk()?),
    })
}

/// The processes that hold each socket, as `name (PID)`, by the inode of the socket. Processes
/// whose descriptors this user may not read are left out.
pub fn holders() -> BTreeMap<u32, Vec<String>> {
    let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let mut name = None;
        for fd in fs::read_dir(process.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let Ok(target) = fs::read_link(fd.path()) else {
                continue;
            };
            let inode = target
                .to_str()
                .and_then(|t| t.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
            let Some(inode) = inode else { continue };
            let name = name.get_or_insert_with(|| {
                let comm = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                // The name of a program is untrusted and may contain control characters.
                let plain: String = comm
                    .trim()
                    .chars()
                    .filter(|c| c.is_ascii_graphic() || *c == ' ')
                    .collect();
                format!("{plain} ({pid})")
            });
            let list = found.entry(inode).or_default();
            if !list.contains(name) {
                list.push(name.clone());
            }
        }
    }
    found
}

/// The congestion control of a new connection, as reported by its socket and by the kernel's socket
/// list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fresh {
    /// The name from `getsockopt`.
    pub socket: String,
    /// The name from the socket list; `None` if the list does not contain the connection.
    pub listed: Option<String>,
}

/// Opens a connection over loopback and reads its congestion control from the socket and from the
/// socket list.
pub fn fresh() -> io::Result<Fresh> {
    let listener = socket::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let there = socket::local(&listener)?;
    let near = socket::connect(there, &socket::Wanted::default())?;
    let far = accepted(&listener)?;
    let own = socket::local(&near)?.port();
    let ports = (own, there.port());
    let listed = connections()?
        .into_iter()
        .find(|c| c.ports == ports)
        .map(|c| c.cc);
    let name = socket::cc_of(&near);
    drop((near, far));
    Ok(Fresh {
        socket: name,
        listed,
    })
}

/// Accepts the connection; `None` if it did not arrive within 500 ms. The handshake over loopback
/// takes microseconds.
fn accepted(listener: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    const PATIENCE: u64 = 500_000_000;
    crate::sys::wait_readable(&[std::os::fd::AsRawFd::as_raw_fd(listener)], PATIENCE)?;
    Ok(socket::accept(listener)?.map(|(fd, _)| fd))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_connection_is_in_the_kernels_list_with_the_same_congestion_control() {
        let fresh = fresh().unwrap();
        assert!(!fresh.socket.is_empty());
        if let Some(listed) = &fresh.listed {
            assert_eq!(*listed, fresh.socket);
        }
    }

    #[test]
    fn this_process_holds_its_own_sockets() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let pid = format!("({})", std::process::id());
        let holders = holders();
        assert!(holders.values().flatten().any(|name| name.ends_with(&pid)));
    }

    #[test]
    fn an_answer_that_is_cut_short_is_none() {
        assert_eq!(read(&[0; 20]), None);
        assert_eq!(read(&[0; FIXED]), None);
    }
}
