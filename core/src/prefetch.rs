//! Prefetching: the memory that an endpoint reads while it handles its next event.
//!
//! A driver of many flows knows some events before it handles them. When the driver handles such an
//! event, the state of its flow is often not in the processor's cache. [`Prefetch`] reports the
//! addresses of this state, and the driver executes the prefetch instructions. Prefetching changes
//! no result.

/// A TCP endpoint (sender or receiver) that reports which memory its next event will read.
pub trait Prefetch {
    /// The event: an ACK or a segment.
    type Event;
    /// Calls `load` with the address and the size in bytes of each record that the next event is
    /// likely to read. The endpoint's own struct is not among these records. `event` is the next
    /// event if the driver knows it already.
    fn prefetch(&self, event: Option<&Self::Event>, load: impl FnMut(*const u8, usize));
}

/// Calls `load` with the address and the size of `value`.
#[inline(always)]
pub(crate) fn record<T: ?Sized>(value: &T, load: &mut impl FnMut(*const u8, usize)) {
    load(
        core::ptr::from_ref(value).cast::<u8>(),
        core::mem::size_of_val(value),
    );
}
