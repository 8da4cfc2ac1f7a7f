//! Streams of random numbers: the same seed and name give the same numbers on every machine.

/// The generator SplitMix64 (Steele, Lea, Flood 2014). The state of the generator is one 64-bit
/// word, and its numbers pass the test suite BigCrush.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rng(u64);

impl Rng {
    /// A stream for `name` under `seed`; streams of different names are independent.
    pub fn named(seed: u64, name: &str) -> Rng {
        // FNV-1a over the name, then one mixing round with the seed.
        let mut h = 0xcbf2_9ce4_8422_2325_u64;
        for b in name.bytes() {
            h = (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let mut rng = Rng(h ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        rng.next_u64();
        rng
    }
    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// Draws 64 random bits and returns a new stream that starts from them.
    pub fn fork(&mut self) -> Rng {
        Rng(self.next_u64())
    }
    /// A random number, uniformly distributed in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// A random integer, uniformly distributed from 0 to n − 1; 0 when n is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }
}
