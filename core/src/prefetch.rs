//! Prefetching: the records that an endpoint reads while it handles its next event.
//!
//! A driver of many flows knows some events before it handles them. By then, the state of their
//! flows is often not in the processor's cache. [`Prefetch`] reports where this state is; the
//! driver has the instruction that loads it. Prefetching changes no result.

/// An endpoint whose next event a driver can prepare for.
pub trait Prefetch {
    /// The event: an ACK or a segment.
    type Event;
    /// Calls `load` with the address and the size in bytes of each record that the next event is
    /// likely to read. The endpoint's own struct is not among them. If the driver knows the event,
    /// it passes it.
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
