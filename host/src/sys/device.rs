//! Devices and addresses of this thread's network namespace.

use super::{check, owned};
use std::ffi::c_int;
use std::io;
use std::mem::zeroed;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

/// Length of the header in front of a packet of a TUN device (`virtio_net_hdr`), bytes.
pub const VNET_HEADER: usize = 10;

/// A request about the device `name`, all other fields zero.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: `ifreq` consists of integers and pointers, for which all zeros is a valid value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request
        .ifr_name
        .iter_mut()
        .zip(name.bytes().take(libc::IFNAMSIZ - 1))
    {
        *to = from as libc::c_char;
    }
    request
}

/// Creates a device of /dev/net/tun called `name` with these flags.
pub(super) fn open(name: &str, flags: c_int) -> io::Result<OwnedFd> {
    let path = c"/dev/net/tun";
    // SAFETY: the path is a C string with static lifetime.
    let fd = owned(unsafe {
        libc::open(
            path.as_ptr(),
            libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC,
        )
    })?;
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which outlives the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &mut request) })?;
    Ok(fd)
}

/// Creates a TUN device called `name`, whose packets begin with a header (`virtio_net_hdr`). With
/// `super_packets`, the kernel also passes packets to it that are still to be segmented (TSO).
pub fn open_tun(name: &str, super_packets: bool) -> io::Result<OwnedFd> {
    let fd = open(name, libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR)?;
    let size: c_int = VNET_HEADER as c_int;
    // SAFETY: TUNSETVNETHDRSZ reads one `int`, which outlives the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ, &size) })?;
    let segmentation = libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let offload = libc::TUN_F_CSUM | if super_packets { segmentation } else { 0 };
    let offload = libc::c_ulong::from(offload);
    // SAFETY: TUNSETOFFLOAD takes its argument as an integer.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, offload) })?;
    Ok(fd)
}

/// The index of a device.
pub fn interface(name: &std::ffi::CStr) -> io::Result<u32> {
    // SAFETY: `name` is a C string that outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// The name of the device with this index.
pub fn device_name(index: u32) -> io::Result<String> {
    let mut name = [0_u8; libc::IF_NAMESIZE];
    // SAFETY: the function writes at most IF_NAMESIZE bytes, which is the size of `name`.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) };
    if found.is_null() {
        return Err(io::Error::last_os_error());
    }
    Ok(super::netlink::text(&name))
}

/// The hardware type of a device (`ARPHRD_ETHER`, …), if it has a link-layer address.
pub fn hardware(name: &str) -> io::Result<Option<u16>> {
    let mut kind = None;
    each_address(name, |_, address| {
        if c_int::from(address.sa_family) == libc::AF_PACKET {
            // SAFETY: an address of the family AF_PACKET is a `sockaddr_ll`, and `getifaddrs`
            // allocates the whole of it.
            let link = unsafe { &*std::ptr::from_ref(address).cast::<libc::sockaddr_ll>() };
            kind = Some(link.sll_hatype);
        }
    })?;
    Ok(kind)
}

/// The IP addresses of a device.
pub fn addresses(name: &str) -> io::Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    each_address(name, |_, address| {
        found.extend(v4(Some(address)).map(IpAddr::V4));
        if c_int::from(address.sa_family) == libc::AF_INET6 {
            // SAFETY: as in `v4`, with `sockaddr_in6` for AF_INET6.
            let v6 = unsafe { &*std::ptr::from_ref(address).cast::<libc::sockaddr_in6>() };
            found.push(Ipv6Addr::from(v6.sin6_addr.s6_addr).into());
        }
    })?;
    Ok(found)
}

/// The IPv4 broadcast addresses of a device. For each subnet, these are the configured one, the
/// highest address (RFC 919), and the lowest address (a broadcast address in Linux before 5.14).
pub fn broadcasts(name: &str) -> io::Result<Vec<Ipv4Addr>> {
    let mut found = Vec::new();
    each_address(name, |entry, address| {
        // SAFETY: the netmask and the broadcast address of an entry are null or valid until
        // `freeifaddrs`; the latter is the peer's address on devices without broadcasts.
        let (mask, set) = unsafe { (entry.ifa_netmask.as_ref(), entry.ifa_ifu.as_ref()) };
        if entry.ifa_flags & libc::IFF_BROADCAST as u32 != 0 {
            let subnet = v4(Some(address)).zip(v4(mask));
            found.extend(
                subnet
                    .into_iter()
                    .flat_map(|(at, mask)| of_subnet(at, mask)),
            );
            found.extend(v4(set).filter(|_| subnet.is_some()));
        }
    })?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The highest and the lowest address of a subnet with more than two addresses; otherwise none.
fn of_subnet(address: Ipv4Addr, mask: Ipv4Addr) -> Vec<Ipv4Addr> {
    let (address, mask) = (u32::from(address), u32::from(mask));
    let both = [address | !mask, address & mask];
    if !mask > 1 {
        both.map(Ipv4Addr::from).to_vec()
    } else {
        Vec::new()
    }
}

fn v4(address: Option<&libc::sockaddr>) -> Option<Ipv4Addr> {
    let address = address.filter(|of| c_int::from(of.sa_family) == libc::AF_INET)?;
    // SAFETY: an address of the family AF_INET is a `sockaddr_in`, and `getifaddrs` allocates the
    // whole of it.
    let v4 = unsafe { &*std::ptr::from_ref(address).cast::<libc::sockaddr_in>() };
    Some(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()))
}

/// Calls `each` with every entry of a device and its address, of any family.
fn each_address(
    name: &str,
    mut each: impl FnMut(&libc::ifaddrs, &libc::sockaddr),
) -> io::Result<()> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call stores the head of a list that the C library allocates; it is freed below.
    check(unsafe { libc::getifaddrs(&mut first) })?;
    let mut next = first;
    // SAFETY: each entry of the list is valid until `freeifaddrs`, ends with a pointer to the next
    // entry or null, and its name is a C string. `each` cannot keep the reference.
    unsafe {
        while let Some(entry) = next.as_ref() {
            next = entry.ifa_next;
            let Some(address) = entry.ifa_addr.as_ref() else {
                continue;
            };
            if std::ffi::CStr::from_ptr(entry.ifa_name).to_bytes() != name.as_bytes() {
                continue;
            }
            each(entry, address);
        }
        libc::freeifaddrs(first);
    }
    Ok(())
}

/// The source address that this host uses towards `to`. No packet is sent.
pub fn source_towards(to: SocketAddr) -> io::Result<IpAddr> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = std::net::UdpSocket::bind(any)?;
    socket.connect(to)?;
    Ok(socket.local_addr()?.ip())
}

/// Makes the ethtool request `command` about a device. Returns the first `words` 32-bit words of
/// the answer, of which the first is the command itself.
pub fn ethtool(name: &str, command: u32, words: usize) -> io::Result<Vec<u32>> {
    /// Length of the buffer in words, larger than the answer to any command that this program uses.
    /// The kernel writes the whole answer, regardless of `words`.
    const ROOM: usize = 64;
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut answer = vec![0_u32; words.max(ROOM)];
    answer[0] = command;
    let mut request = request(name);
    request.ifr_ifru.ifru_data = answer.as_mut_ptr().cast();
    // SAFETY: the kernel reads one `ifreq` and writes the answer of `command` to `answer`, which
    // outlives the call and is longer than the answer to every command that callers pass.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) })?;
    answer.truncate(words);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_has_two_addresses_of_all_hosts_unless_it_is_a_link_of_two() {
        for (address, mask, expected) in [
            ("10.1.2.3", "255.0.0.0", vec!["10.255.255.255", "10.0.0.0"]),
            (
                "198.51.100.2",
                "255.255.255.252",
                vec!["198.51.100.3", "198.51.100.0"],
            ),
            ("198.51.100.2", "255.255.255.254", vec![]),
            ("198.51.100.2", "255.255.255.255", vec![]),
        ] {
            let parse = |text: &str| text.parse::<Ipv4Addr>().expect("an address");
            let expected: Vec<Ipv4Addr> = expected.into_iter().map(parse).collect();
            assert_eq!(of_subnet(parse(address), parse(mask)), expected, "{mask}");
        }
    }
}
