//! Control messages of sockets (cmsg(3)): timestamps, traffic classes, hop limits, losses.

use std::ffi::c_int;
use std::mem::{size_of, zeroed};

/// Types of which every bit pattern is a valid value.
///
/// # Safety
///
/// Every bit pattern must be a valid value of the type.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: an integer has no invalid bit patterns.
unsafe impl Plain for u8 {}
// SAFETY: an integer has no invalid bit patterns.
unsafe impl Plain for u32 {}
// SAFETY: an integer has no invalid bit patterns.
unsafe impl Plain for u64 {}
// SAFETY: an integer has no invalid bit patterns.
unsafe impl Plain for c_int {}
// SAFETY: the structure consists of integers.
unsafe impl Plain for libc::timespec {}
// SAFETY: the structure consists of integers.
unsafe impl Plain for libc::sock_extended_err {}
// SAFETY: an array of values without invalid bit patterns.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// A buffer for the control messages of one datagram, aligned as `cmsghdr` requires.
pub(crate) type Buffer = [u64; 32];

/// One control message.
pub(crate) struct Control<'a> {
    /// Level and type.
    pub kind: (c_int, c_int),
    data: &'a [u8],
}

impl Control<'_> {
    /// The value of the message. If the message is shorter than `T`, the remaining bytes are zero.
    pub fn get<T: Plain>(&self) -> T {
        // SAFETY: all zeros is a valid value, as every bit pattern is.
        let mut value: T = unsafe { zeroed() };
        let n = size_of::<T>().min(self.data.len());
        // SAFETY: `n` bytes are readable at the source and writable at the target; the two do not
        // overlap; every bit pattern of `T` is valid.
        unsafe {
            let to = std::ptr::from_mut(&mut value).cast::<u8>();
            std::ptr::copy_nonoverlapping(self.data.as_ptr(), to, n);
        }
        value
    }
}

/// Calls `each` with every control message that the kernel has stored in `buffer`, of which the
/// first `filled` bytes are valid.
#[allow(clippy::unnecessary_cast)] // The lengths have 32 bits in musl.
pub(crate) fn each(buffer: &Buffer, filled: usize, mut each: impl FnMut(Control)) {
    // SAFETY: `msghdr` consists of integers and pointers, for which all zeros is a valid value.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_control = buffer.as_ptr().cast_mut().cast();
    message.msg_controllen = filled.min(size_of::<Buffer>()) as _;
    // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return null or a header that lies wholly within the
    // valid part of `buffer`, which is aligned for it. Nothing is written through the pointers.
    unsafe {
        let end = buffer
            .as_ptr()
            .cast::<u8>()
            .add(message.msg_controllen as usize);
        let mut next = libc::CMSG_FIRSTHDR(&message);
        while let Some(head) = next.as_ref() {
            let data = libc::CMSG_DATA(next).cast_const();
            let length = (head.cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            // The kernel's lengths stay within the buffer; the bound makes that independent of it.
            let length = length.min((end as usize).saturating_sub(data as usize));
            each(Control {
                kind: (head.cmsg_level, head.cmsg_type),
                data: std::slice::from_raw_parts(data, length),
            });
            next = libc::CMSG_NXTHDR(&message, next);
        }
    }
}

/// A buffer for the control messages of a datagram that is sent, aligned as `cmsghdr` requires.
pub(crate) type OutBuffer = [u64; 9];

/// The requests to the kernel for a datagram that is sent; `None` requests nothing.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Request {
    /// Traffic class.
    pub class: Option<u8>,
    /// Size of the datagrams into which the kernel cuts the message (`UDP_SEGMENT`), bytes.
    pub segment: Option<u16>,
    /// Earliest departure time (`SCM_TXTIME`), ns of the clock that the socket has selected.
    pub departs: Option<u64>,
}

/// Adds to `message` the control messages of `request`, for IPv4 (`v4`) or IPv6. `buffer` holds
/// them and must outlive the call that sends `message`.
pub(crate) fn set_request(
    message: &mut libc::msghdr,
    buffer: &mut OutBuffer,
    v4: bool,
    request: Request,
) {
    let of_class = if v4 {
        (libc::IPPROTO_IP, libc::IP_TOS)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
    };
    let class = request.class.map(|class| c_int::from(class).to_ne_bytes());
    let size = request.segment.map(u16::to_ne_bytes);
    let departs = request.departs.map(u64::to_ne_bytes);
    let parts: [(_, &[u8]); 3] = [
        (of_class, class.as_ref().map_or(&[], |bytes| bytes)),
        (
            (libc::SOL_UDP, libc::UDP_SEGMENT),
            size.as_ref().map_or(&[], |bytes| bytes),
        ),
        (
            (libc::SOL_SOCKET, libc::SCM_TXTIME),
            departs.as_ref().map_or(&[], |bytes| bytes),
        ),
    ];
    let parts = || parts.iter().filter(|(_, data)| !data.is_empty());
    // SAFETY: CMSG_SPACE takes an integer and computes.
    let space = |data: &[u8]| unsafe { libc::CMSG_SPACE(data.len() as u32) as usize };
    let filled: usize = parts().map(|(_, data)| space(data)).sum();
    if filled == 0 {
        return;
    }
    message.msg_control = buffer.as_mut_ptr().cast();
    message.msg_controllen = filled as _;
    // SAFETY: CMSG_SPACE of an integer, of two and of eight bytes is at most 24 bytes each, and the
    // exclusively borrowed buffer has 72, aligned for a header. CMSG_NXTHDR reads the length that
    // was stored in the header before.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(message);
        for ((level, kind), data) in parts() {
            let Some(part) = next.as_mut() else { return };
            part.cmsg_level = *level;
            part.cmsg_type = *kind;
            part.cmsg_len = libc::CMSG_LEN(data.len() as u32) as _;
            std::ptr::copy_nonoverlapping(data.as_ptr(), libc::CMSG_DATA(part), data.len());
            next = libc::CMSG_NXTHDR(message, part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_read_back_and_a_cut_message_ends_the_list() {
        // SAFETY: all zeros is a valid header.
        let mut message: libc::msghdr = unsafe { zeroed() };
        let mut out = OutBuffer::default();
        let request = Request {
            class: Some(0xb8),
            segment: Some(1472),
            departs: Some(1 << 40),
        };
        set_request(&mut message, &mut out, true, request);
        let mut buffer: Buffer = [0; 32];
        buffer[..out.len()].copy_from_slice(&out);
        let list = |filled: usize| {
            let mut found = Vec::new();
            each(&buffer, filled, |c| found.push((c.kind, c.get::<u64>())));
            found
        };
        let class = ((libc::IPPROTO_IP, libc::IP_TOS), 0xb8);
        let segment = ((libc::SOL_UDP, libc::UDP_SEGMENT), 1472);
        let departs = ((libc::SOL_SOCKET, libc::SCM_TXTIME), 1 << 40);
        let filled = message.msg_controllen as usize;
        assert_eq!(list(filled), [class, segment, departs]);
        assert_eq!(list(24), [class]);
        assert_eq!(list(4), []);
        assert_eq!(list(0), []);
    }

    #[test]
    fn a_length_beyond_the_buffer_is_cut() {
        let mut buffer: Buffer = [u64::MAX; 32];
        buffer[0] = 1 << 20;
        buffer[1] = 0;
        let mut sizes = Vec::new();
        each(&buffer, size_of::<Buffer>(), |c| sizes.push(c.data.len()));
        assert!(sizes.iter().all(|n| *n <= size_of::<Buffer>()), "{sizes:?}");
    }
}
