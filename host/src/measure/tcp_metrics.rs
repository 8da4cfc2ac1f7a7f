//! Deletes the metrics of a destination that the kernel caches, such as RTT and slow-start
//! threshold, and uses for the next connection (`ip tcp_metrics`). If two congestion controls are
//! measured in turn, the cached metrics of the first would change the start of the second.
//!
//! Two messages of generic netlink are sent (include/uapi/linux/tcp_metrics.h): a query for the
//! number of the family, and the deletion of an address. The deletion requires CAP_NET_ADMIN;
//! without it, the error states the reason.

use crate::sys;
use crate::sys::netlink;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_ID` and `CTRL_ATTR_FAMILY_NAME`.
const CONTROL: (u16, u8, u16, u16) = (0x10, 3, 1, 2);
/// `TCP_METRICS_CMD_DEL`, `TCP_METRICS_ATTR_ADDR_IPV4` and `..._IPV6`.
const FORGET: (u8, u16, u16) = (2, 1, 2);
/// Length of the headers of netlink and generic netlink together, bytes.
const HEADERS: usize = 16 + 4;

fn message(family: u16, command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
    let mut bytes = vec![0; 4];
    bytes.extend(family.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend((value.len() as u16 + 4).to_ne_bytes());
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let len = bytes.len() as u32;
    bytes[..4].copy_from_slice(&len.to_ne_bytes());
    bytes
}

/// Sends a message and returns the answer; fails if the kernel answers with an error.
fn ask(fd: &OwnedFd, message: &[u8]) -> io::Result<Vec<u8>> {
    sys::send(fd, message)?;
    let mut answer = vec![0; 4096];
    let n = sys::read(fd, &mut answer)?.unwrap_or(0);
    answer.truncate(n);
    let short = || io::Error::other("a short answer");
    let kind = answer.get(4..6).ok_or_else(short)?;
    if u16::from_ne_bytes([kind[0], kind[1]]) == libc::NLMSG_ERROR as u16 {
        let code = answer
            .get(16..20)
            .and_then(|c| c.first_chunk())
            .ok_or_else(short)?;
        match i32::from_ne_bytes(*code) {
            0 => {}
            code => return Err(io::Error::from_raw_os_error(-code)),
        }
    }
    Ok(answer)
}

fn family(answer: &[u8]) -> Option<u16> {
    let mut rest = answer.get(HEADERS..)?;
    while let [a, b, c, d, value @ ..] = rest {
        let (len, kind) = (
            u16::from_ne_bytes([*a, *b]) as usize,
            u16::from_ne_bytes([*c, *d]),
        );
        if kind == CONTROL.2 {
            return value.first_chunk().map(|id| u16::from_ne_bytes(*id));
        }
        rest = rest.get(len.max(4).next_multiple_of(4)..)?;
    }
    None
}

fn ask_to_forget(ip: IpAddr) -> io::Result<()> {
    let fd = netlink::open(libc::NETLINK_GENERIC)?;
    let answer = ask(
        &fd,
        &message(CONTROL.0, CONTROL.1, CONTROL.3, b"tcp_metrics\0"),
    )?;
    let id =
        family(&answer).ok_or_else(|| io::Error::other("this kernel caches no TCP metrics"))?;
    // The first socket still has the acknowledgement of the query to be read, so a second socket is
    // used.
    let fd = netlink::open(libc::NETLINK_GENERIC)?;
    let message = match ip.to_canonical() {
        IpAddr::V4(ip) => message(id, FORGET.0, FORGET.1, &ip.octets()),
        IpAddr::V6(ip) => message(id, FORGET.0, FORGET.2, &ip.octets()),
    };
    match ask(&fd, &message) {
        // No metrics were cached.
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other.map(drop),
    }
}

/// Deletes the cached metrics of `ip`; returns the reason if that fails.
pub fn forget(ip: IpAddr) -> Result<(), String> {
    let nothing = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_no_metrics_save");
    if nothing.is_ok_and(|text| text.trim() == "1") {
        return Ok(());
    }
    ask_to_forget(ip).map_err(|e| match e.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "only root may delete the cached metrics of a destination".to_string()
        }
        _ => e.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_forgets_or_says_why_not() {
        if let Err(why) = forget("127.0.0.1".parse().unwrap()) {
            assert!(why.contains("root"), "{why}");
        }
    }
}
