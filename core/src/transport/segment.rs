//! The size of segments and the TCP options in them.

/// Payload of a full segment: an MTU of 1500 bytes minus the headers of IP and TCP with the
/// timestamp option.
pub const MSS: u32 = 1448;

/// Header bytes of a segment: Ethernet, IPv4 and TCP headers with the timestamp option.
pub const HEADERS: u64 = 66;

/// MTU of Ethernet, bytes.
pub const USUAL_MTU: u16 = 1500;

/// Largest MTU of a host, bytes.
pub const MOST_MTU: u16 = 16_000;

/// Bytes of the AccECN option with its three counters, padded (RFC 9768 section 3.2.3).
pub const ACCECN_OPTION: u64 = 12;

/// Bytes of the timestamp option, padded.
pub const TIMESTAMPS: u64 = 12;

/// TCP options of every segment of a connection. These options decide the payload of a full
/// segment.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum TcpOptions {
    /// Timestamps, with segments of the usual size.
    #[default]
    Timestamps,
    /// Timestamps and the AccECN option, with segments of the usual size.
    AccEcn,
    /// Segments of another size, or without timestamps.
    Other(Shape),
}

/// Size and options of the segments of a connection, in 16 bits.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Shape(u16);

/// Largest payload of a segment, bytes.
pub const MOST_MSS: u32 = Shape::SIZE as u32;

impl Shape {
    const SIZE: u16 = (1 << 14) - 1;
    const STAMPS: u16 = 1 << 14;
    const ACCECN: u16 = 1 << 15;

    /// The shape with these 16 bits.
    pub const fn from_bits(bits: u16) -> Shape {
        Shape(bits)
    }
    /// The shape as 16 bits.
    pub const fn bits(self) -> u16 {
        self.0
    }
    const fn mss(self) -> u32 {
        (self.0 & Shape::SIZE) as u32
    }
    // Seldom used, so that the code of the usual segments stays short.
    #[cold]
    const fn payload(self) -> u32 {
        if self.has_accecn() {
            self.mss() - ACCECN_OPTION as u32
        } else {
            self.mss()
        }
    }
    const fn has_timestamps(self) -> bool {
        self.0 & Shape::STAMPS != 0
    }
    const fn has_accecn(self) -> bool {
        self.0 & Shape::ACCECN != 0
    }
}

impl TcpOptions {
    /// The options of segments with a payload of up to `mss` bytes, which the AccECN option
    /// reduces.
    pub const fn new(mss: u32, timestamps: bool, accecn: bool) -> TcpOptions {
        match (mss, timestamps, accecn) {
            (MSS, true, false) => TcpOptions::Timestamps,
            (MSS, true, true) => TcpOptions::AccEcn,
            _ => {
                let stamps = if timestamps { Shape::STAMPS } else { 0 };
                let accecn = if accecn { Shape::ACCECN } else { 0 };
                TcpOptions::Other(Shape(mss as u16 & Shape::SIZE | stamps | accecn))
            }
        }
    }
    /// Payload bytes of a full segment.
    #[inline]
    pub const fn payload(self) -> u32 {
        match self {
            TcpOptions::Timestamps => MSS,
            TcpOptions::AccEcn => MSS - ACCECN_OPTION as u32,
            TcpOptions::Other(shape) => shape.payload(),
        }
    }
    /// Payload bytes of a full segment without the AccECN option (Linux: `mss_cache`).
    #[inline]
    pub const fn mss(self) -> u32 {
        match self {
            TcpOptions::Timestamps | TcpOptions::AccEcn => MSS,
            TcpOptions::Other(shape) => shape.mss(),
        }
    }
    /// Returns whether segments have timestamps.
    #[inline]
    pub const fn has_timestamps(self) -> bool {
        match self {
            TcpOptions::Timestamps | TcpOptions::AccEcn => true,
            TcpOptions::Other(shape) => shape.has_timestamps(),
        }
    }
    /// Returns whether segments have the AccECN option.
    pub const fn has_accecn(self) -> bool {
        match self {
            TcpOptions::Timestamps => false,
            TcpOptions::AccEcn => true,
            TcpOptions::Other(shape) => shape.has_accecn(),
        }
    }
    /// Header bytes of a segment over IPv4.
    #[inline]
    pub const fn headers(self) -> u64 {
        match self {
            TcpOptions::Timestamps => HEADERS,
            TcpOptions::AccEcn => HEADERS + ACCECN_OPTION,
            TcpOptions::Other(shape) => {
                HEADERS
                    - if shape.has_timestamps() {
                        0
                    } else {
                        TIMESTAMPS
                    }
                    + if shape.has_accecn() { ACCECN_OPTION } else { 0 }
            }
        }
    }
    /// Returns the number of full segments in `bytes` of payload.
    #[inline]
    pub const fn full_segments(self, bytes: u64) -> u64 {
        // The usual divisor is a constant, which needs no division.
        match self {
            TcpOptions::Timestamps => bytes / MSS as u64,
            _ => self.divide(bytes),
        }
    }
    // A function of its own, because the compiler would merge both divisions into one.
    #[cold]
    const fn divide(self, bytes: u64) -> u64 {
        bytes / self.payload() as u64
    }
    /// Returns the payload of the last, short segment of `bytes`; 0 if all are full.
    #[inline]
    pub const fn short_segment(self, bytes: u64) -> u64 {
        bytes - self.full_segments(bytes) * self.payload() as u64
    }
}
