//! eBPF: a small assembler, and the five commands of bpf(2) that create and read a map, and load,
//! test and attach a program.
//!
//! A program has a few hundred instructions, which are generated at run time and verified by the
//! kernel. No compiler, library or object file is involved. The virtual machine of BPF has eleven
//! registers. R0 has the result of a call and of the program. R1 to R5 are arguments, which calls
//! overwrite. Calls preserve R6 to R9. R10 points to the end of the stack of 512 bytes. Programs
//! built here jump forward only. The verifier accepts accesses to a packet only after a check of
//! its bounds.
//!
//! Source: RFC 9669 (the instruction set), bpf(2), linux/bpf.h of Linux 6.12 (the layout of the
//! calls).

use super::{check, owned};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// A register, 0 to 10.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Reg(pub u8);

/// The result of a call, and of the program.
pub const R0: Reg = Reg(0);
/// The first argument; at the start of the program, its context (`struct xdp_md`).
pub const R1: Reg = Reg(1);
/// An argument.
pub const R2: Reg = Reg(2);
/// An argument.
pub const R3: Reg = Reg(3);
/// An argument.
pub const R4: Reg = Reg(4);
/// An argument.
pub const R5: Reg = Reg(5);
/// Preserved by calls.
pub const R6: Reg = Reg(6);
/// Preserved by calls.
pub const R7: Reg = Reg(7);
/// Preserved by calls.
pub const R8: Reg = Reg(8);
/// Preserved by calls.
pub const R9: Reg = Reg(9);
/// The end of the stack, which grows downwards.
pub const STACK: Reg = Reg(10);

/// The size of a memory access.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Size {
    Byte = 0x10,
    Two = 0x08,
    Four = 0x00,
    Eight = 0x18,
}

/// An arithmetic operation on 64 bits.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Alu {
    Add = 0x00,
    Or = 0x40,
    And = 0x50,
    ShiftRight = 0x70,
    Xor = 0xa0,
    Move = 0xb0,
}

/// The condition of a jump; comparisons are unsigned.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum If {
    Always = 0x00,
    Equal = 0x10,
    Greater = 0x20,
    AnyBit = 0x40,
    Unequal = 0x50,
    Less = 0xa0,
}

/// A register or a constant.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Operand {
    /// The value of a register.
    Of(Reg),
    /// A constant, sign-extended to 64 bits.
    Is(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Operand {
        Operand::Of(reg)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Operand {
        Operand::Is(number)
    }
}

/// A helper function of the kernel, by its number in linux/bpf.h.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Helper {
    /// `bpf_map_lookup_elem`: r1 is a map, r2 the address of the key. Returns the address of the
    /// value, or 0.
    Lookup = 1,
    /// `bpf_ktime_get_ns`: returns CLOCK_MONOTONIC, ns.
    Now = 5,
    /// `bpf_csum_diff`: r1 and r2 are address and length of the old bytes, r3 and r4 those of the
    /// new bytes, r5 is a previous sum. Returns the sum plus the difference of the checksums.
    ChecksumDifference = 28,
}

/// The target of a jump.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Label(usize);

/// A program under construction.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    code: Vec<[u8; 8]>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

/// Classes and modes of instructions.
const LOAD_WIDE: u8 = 0x18;
const LOAD: u8 = 0x61;
const STORE_NUMBER: u8 = 0x62;
const STORE: u8 = 0x63;
const ATOMIC_ADD: u8 = 0xdb;
const ALU: u8 = 0x07;
const MOVE_FOUR: u8 = 0xb4;
const JUMP: u8 = 0x05;
const FROM_REGISTER: u8 = 0x08;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const TO_BIG_ENDIAN: u8 = 0xdc;
/// The source of a wide load: the constant is the descriptor of a map.
const MAP: u8 = 1;

impl Assembler {
    fn put(&mut self, code: u8, to: Reg, from: u8, offset: i16, number: i32) {
        // RFC 9669, section 3: the two registers share a byte, in the bit order of the host.
        let regs = if cfg!(target_endian = "little") {
            from << 4 | to.0
        } else {
            to.0 << 4 | from
        };
        let (o, n) = (offset.to_ne_bytes(), number.to_ne_bytes());
        self.code
            .push([code, regs, o[0], o[1], n[0], n[1], n[2], n[3]]);
    }
    /// A label without a position.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }
    /// Sets the position of a label.
    pub fn here(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }
    /// `to = to OP what`.
    pub fn alu(&mut self, op: Alu, to: Reg, what: impl Into<Operand>) {
        match what.into() {
            Operand::Of(reg) => self.put(ALU | op as u8 | FROM_REGISTER, to, reg.0, 0, 0),
            Operand::Is(number) => self.put(ALU | op as u8, to, 0, 0, number),
        }
    }
    /// `to = what`.
    pub fn mov(&mut self, to: Reg, what: impl Into<Operand>) {
        self.alu(Alu::Move, to, what);
    }
    /// Sets `to` to the value that a load of these four bytes from a packet would have; the upper
    /// half is zero.
    pub fn four(&mut self, to: Reg, bytes: [u8; 4]) {
        self.put(MOVE_FOUR, to, 0, 0, i32::from_ne_bytes(bytes));
    }
    /// Converts `to` between host byte order and big-endian, with this many bits.
    pub fn big_endian(&mut self, to: Reg, bits: i32) {
        self.put(TO_BIG_ENDIAN, to, 0, 0, bits);
    }
    /// `to = *(from + offset)`.
    pub fn load(&mut self, size: Size, to: Reg, from: Reg, offset: i16) {
        self.put(LOAD | size as u8, to, from.0, offset, 0);
    }
    /// `*(to + offset) = what`.
    pub fn store(&mut self, size: Size, to: Reg, offset: i16, what: impl Into<Operand>) {
        match what.into() {
            Operand::Of(reg) => self.put(STORE | size as u8, to, reg.0, offset, 0),
            Operand::Is(number) => self.put(STORE_NUMBER | size as u8, to, 0, offset, number),
        }
    }
    /// `*(to + offset) += from`, in 64 bits, atomically.
    pub fn add_atomically(&mut self, to: Reg, offset: i16, from: Reg) {
        self.put(ATOMIC_ADD, to, from.0, offset, 0);
    }
    /// Sets `to` to the address of a map.
    pub fn map(&mut self, to: Reg, map: &OwnedFd) {
        self.put(LOAD_WIDE, to, MAP, 0, map.as_raw_fd());
        self.put(0, Reg(0), 0, 0, 0);
    }
    /// Jumps to `label` if the comparison of `left` with `right` is true.
    pub fn jump_if(&mut self, left: Reg, is: If, right: impl Into<Operand>, label: Label) {
        self.jumps.push((self.code.len(), label));
        match right.into() {
            Operand::Of(reg) => self.put(JUMP | is as u8 | FROM_REGISTER, left, reg.0, 0, 0),
            Operand::Is(number) => self.put(JUMP | is as u8, left, 0, 0, number),
        }
    }
    /// Jumps to `label`.
    pub fn jump(&mut self, label: Label) {
        self.jump_if(R0, If::Always, 0, label);
    }
    /// Calls a helper function.
    pub fn call(&mut self, helper: Helper) {
        self.put(CALL, Reg(0), 0, 0, helper as i32);
    }
    /// Ends the program; the result is in r0.
    pub fn exit(&mut self) {
        self.put(EXIT, Reg(0), 0, 0, 0);
    }
    /// The instructions with resolved jumps. A jump to a label without a position becomes a jump to
    /// itself, which the kernel rejects.
    pub fn finish(mut self) -> Vec<[u8; 8]> {
        for (at, label) in &self.jumps {
            let to = self.labels[label.0].unwrap_or(*at);
            let distance = to as i64 - *at as i64 - 1;
            let bytes = (distance as i16).to_ne_bytes();
            self.code[*at][2..4].copy_from_slice(&bytes);
        }
        self.code
    }
}

/// The part of `union bpf_attr` that is needed here.
#[derive(Default)]
struct Arguments([u64; 16]);

impl Arguments {
    fn four(mut self, at: usize, value: u32) -> Arguments {
        let mut bytes = self.0[at / 8].to_ne_bytes();
        bytes[at % 8..at % 8 + 4].copy_from_slice(&value.to_ne_bytes());
        self.0[at / 8] = u64::from_ne_bytes(bytes);
        self
    }
    fn eight(mut self, at: usize, value: u64) -> Arguments {
        self.0[at / 8] = value;
        self
    }
    fn read(&self, at: usize) -> u32 {
        let bytes = self.0[at / 8].to_ne_bytes();
        let mut four = [0; 4];
        four.copy_from_slice(&bytes[at % 8..at % 8 + 4]);
        u32::from_ne_bytes(four)
    }
    fn call(&mut self, command: c_int) -> io::Result<c_int> {
        // SAFETY: the kernel reads and writes at most the stated size of the arguments, which
        // outlive the call; addresses in them point to values of the callers that outlive it too,
        // with the lengths that the arguments state.
        check(unsafe {
            libc::syscall(
                libc::SYS_bpf,
                command,
                self.0.as_mut_ptr(),
                size_of_val(&self.0),
            )
        } as c_int)
    }
    /// For commands that return a descriptor; bpf(2) sets close-on-exec.
    fn descriptor(&mut self, command: c_int) -> io::Result<OwnedFd> {
        owned(self.call(command)?)
    }
}

fn pointer<T>(to: *const T) -> u64 {
    to as usize as u64
}

const MAP_CREATE: c_int = 0;
const MAP_LOOKUP: c_int = 1;
const PROGRAM_LOAD: c_int = 5;
const PROGRAM_TEST_RUN: c_int = 10;
const LINK_CREATE: c_int = 28;
const TYPE_ARRAY: u32 = 2;
const TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// `XDP_FLAGS_SKB_MODE` (generic mode): the program runs after the driver has passed the packet to
/// the stack. Every driver supports it.
const GENERIC: u32 = 2;

/// Result of an XDP program: pass the packet to the stack (`XDP_PASS`).
pub const PASS: i32 = 2;
/// Result of an XDP program: send the packet back out of the device (`XDP_TX`).
pub const BACK: i32 = 3;

/// An array of 64-bit numbers that programs and this process share.
pub fn array(entries: u32) -> io::Result<OwnedFd> {
    let make = || {
        let sizes = Arguments::default()
            .four(0, TYPE_ARRAY)
            .four(4, 4)
            .four(8, 8);
        sizes.four(12, entries).descriptor(MAP_CREATE)
    };
    make().or_else(|error| {
        // Before Linux 5.11 maps count as locked memory, whose limit is small.
        let all = libc::rlimit {
            rlim_cur: libc::RLIM_INFINITY,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: the kernel reads one `rlimit`, which outlives the call.
        let raised = unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &all) } == 0;
        if raised && error.raw_os_error() == Some(libc::EPERM) {
            make()
        } else {
            Err(error)
        }
    })
}

/// Reads one entry of an array.
pub fn entry(map: &OwnedFd, key: u32) -> io::Result<u64> {
    let mut value = 0_u64;
    let place = pointer(std::ptr::from_mut(&mut value).cast_const());
    let mut ask = Arguments::default().four(0, map.as_raw_fd() as u32);
    ask = ask.eight(8, pointer(&key)).eight(16, place);
    ask.call(MAP_LOOKUP).map(|_| value)
}

/// Loads an XDP program. If the kernel rejects it, the error ends with the last lines of the
/// verifier's log.
pub fn load(code: &[[u8; 8]], name: &str) -> io::Result<OwnedFd> {
    let licence = c"MIT OR Apache-2.0";
    let mut called = [0_u8; 16];
    for (to, from) in called[..15].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| called[at + i]));
    let ask = |log: Option<&mut Vec<u8>>| {
        let mut ask = Arguments::default()
            .four(0, TYPE_XDP)
            .four(4, code.len() as u32);
        ask = ask
            .eight(8, pointer(code.as_ptr()))
            .eight(16, pointer(licence.as_ptr()));
        ask = ask
            .eight(48, word(0))
            .eight(56, word(8))
            .four(68, ATTACH_XDP);
        if let Some(log) = log {
            ask = ask.four(24, 1).four(28, log.len() as u32);
            ask = ask.eight(32, pointer(log.as_mut_ptr().cast_const()));
        }
        ask.descriptor(PROGRAM_LOAD)
    };
    ask(None).or_else(|error| {
        if error.raw_os_error() == Some(libc::EPERM) {
            return Err(error);
        }
        let mut log = vec![0; 1 << 16];
        let error = match ask(Some(&mut log)) {
            Ok(program) => return Ok(program),
            Err(error) => error,
        };
        let end = log.iter().position(|c| *c == 0).unwrap_or(0);
        let text = String::from_utf8_lossy(&log[..end]);
        let mut last: Vec<&str> = text.trim().lines().rev().take(4).collect();
        last.reverse();
        Err(io::Error::new(
            error.kind(),
            format!("{error}: {}", last.join("; ")),
        ))
    })
}

/// Runs a program on one packet, which is not sent. Returns the result of the program and the
/// changed packet.
pub fn try_once(program: &OwnedFd, packet: &[u8]) -> io::Result<(i32, Vec<u8>)> {
    let mut out = vec![0_u8; packet.len() + 256];
    let mut ask = Arguments::default().four(0, program.as_raw_fd() as u32);
    ask = ask.four(8, packet.len() as u32).four(12, out.len() as u32);
    ask = ask
        .eight(16, pointer(packet.as_ptr()))
        .eight(24, pointer(out.as_mut_ptr().cast_const()));
    ask = ask.four(32, 1);
    ask.call(PROGRAM_TEST_RUN)?;
    out.truncate(ask.read(12) as usize);
    Ok((ask.read(4) as i32, out))
}

/// Attaches an XDP program to a device in generic mode. The kernel detaches it when the returned
/// descriptor is closed, including at the end of the process.
pub fn attach(program: &OwnedFd, device: u32) -> io::Result<OwnedFd> {
    let ask = Arguments::default().four(0, program.as_raw_fd() as u32);
    ask.four(4, device)
        .four(8, ATTACH_XDP)
        .four(12, GENERIC)
        .descriptor(LINK_CREATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares instructions with those of RFC 9669, on a little-endian host.
    #[test]
    #[cfg(target_endian = "little")]
    fn instructions_are_the_specifications() {
        let mut a = Assembler::default();
        let end = a.label();
        a.mov(R0, PASS);
        a.load(Size::Four, R6, R1, 4);
        a.alu(Alu::Add, R2, R3);
        a.jump_if(R2, If::Greater, R7, end);
        a.store(Size::Eight, STACK, -8, R0);
        a.big_endian(R0, 64);
        a.here(end);
        a.exit();
        let code = a.finish();
        assert_eq!(code[0], [0xb7, 0x00, 0, 0, 2, 0, 0, 0]);
        assert_eq!(code[1], [0x61, 0x16, 4, 0, 0, 0, 0, 0]);
        assert_eq!(code[2], [0x0f, 0x32, 0, 0, 0, 0, 0, 0]);
        assert_eq!(code[3], [0x2d, 0x72, 2, 0, 0, 0, 0, 0]);
        assert_eq!(code[4], [0x7b, 0x0a, 0xf8, 0xff, 0, 0, 0, 0]);
        assert_eq!(code[5], [0xdc, 0x00, 0, 0, 64, 0, 0, 0]);
        assert_eq!(code[6], [0x95, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_the_verifier_says_is_told() {
        let mut a = Assembler::default();
        a.load(Size::Four, R0, R1, 0);
        a.load(Size::Four, R0, R0, 0);
        a.exit();
        match load(&a.finish(), "wrong") {
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
                println!("left out: this user may not load programs");
            }
            Err(e) => assert!(e.to_string().contains("invalid"), "{e}"),
            Ok(_) => panic!("a packet was read beyond its end"),
        }
    }
}
