//! The contents of datagrams of transports in transit. A packet contains the number of its datagram
//! here.

/// The contents of the datagrams in transit, by number.
#[derive(Default)]
pub(crate) struct Payloads {
    slots: Vec<Vec<u8>>,
    free: Vec<u32>,
}

impl Payloads {
    /// Stores a datagram; returns its number.
    pub fn put(&mut self, datagram: &[u8]) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Vec::new());
            self.slots.len() as u32 - 1
        });
        let held = &mut self.slots[slot as usize];
        held.clear();
        held.extend_from_slice(datagram);
        u64::from(slot)
    }
    /// Stores a copy of datagram `number` and returns the number of the copy.
    pub fn copy(&mut self, number: u64) -> u64 {
        let datagram = self.slots[number as usize].clone();
        self.put(&datagram)
    }
    /// Frees datagram `number`, which was dropped or which its endpoint has read.
    pub fn free(&mut self, number: u64) {
        self.free.push(number as u32);
    }
    /// The bytes of datagram `number`.
    pub fn get(&mut self, number: u64) -> &mut [u8] {
        &mut self.slots[number as usize]
    }
}
