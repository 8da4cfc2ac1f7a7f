//! The C interface of a shared library with transports.
//!
//! A library exports the function `narrows_transports`. This function returns the number of the
//! library's transports and stores the address of a table of [`Transport`]s. All types have the
//! layout of C, and neither side frees memory of the other. Therefore the compilers of both sides
//! may differ, and an adapter may be written in C. The calls of an endpoint return a code: 0 for
//! success, 1 for a fault, which [`Transport::fault`] describes. `poll` and `timeout` return 2 if
//! there is no datagram or no timer. The macro [`export!`](crate::export) generates the function
//! and the table.

use crate::{Ecn, Endpoint, Kind, Nanos, Role, Setting, Stats};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ffi::{CStr, c_char, c_int, c_void};

/// Version of the interface.
pub const ABI: u32 = 1;

/// The name of the exported function.
pub const SYMBOL: &CStr = c"narrows_transports";

/// The exported function.
pub type Export = unsafe extern "C" fn(*mut *const Transport) -> usize;

/// Codes of calls: success and fault.
const GOOD: c_int = 0;
const FAULT: c_int = 1;
/// Code of `poll` and `timeout`: there is no datagram, or no timer.
const NONE: c_int = 2;

/// [`Setting`].
#[repr(C)]
pub struct RawSetting {
    /// 0 for the sender, 1 for the receiver.
    pub role: u32,
    /// 1 if the endpoint may use ECN.
    pub ecn: u32,
    /// The congestion control.
    pub cc: *const c_char,
    /// Seed of all random choices.
    pub seed: u64,
    /// Largest IP packet in bytes.
    pub mtu: u32,
}

/// A transport. Strings end with a zero byte and live as long as the library.
#[repr(C)]
pub struct Transport {
    /// [`ABI`].
    pub abi: u32,
    /// [`Kind::headers`].
    pub headers: u32,
    /// [`Kind::name`].
    pub name: *const c_char,
    /// [`Kind::version`].
    pub version: *const c_char,
    /// [`Kind::help`].
    pub help: *const c_char,
    /// [`Kind::ccs`], separated by commas.
    pub ccs: *const c_char,
    /// Creates an endpoint; null after a fault.
    pub open: unsafe extern "C" fn(*const RawSetting) -> *mut c_void,
    /// Deletes an endpoint.
    pub close: unsafe extern "C" fn(*mut c_void),
    /// [`Endpoint::start`].
    pub start: unsafe extern "C" fn(*mut c_void, Nanos) -> c_int,
    /// [`Endpoint::handle`]: data, their length, ECN bits.
    pub handle: unsafe extern "C" fn(*mut c_void, Nanos, *mut u8, usize, u8) -> c_int,
    /// [`Endpoint::poll`]: a buffer, its size, and where to store the length and the ECN bits.
    pub poll:
        unsafe extern "C" fn(*mut c_void, Nanos, *mut u8, usize, *mut usize, *mut u8) -> c_int,
    /// [`Endpoint::timeout`].
    pub timeout: unsafe extern "C" fn(*mut c_void, *mut Nanos) -> c_int,
    /// [`Endpoint::on_timeout`].
    pub on_timeout: unsafe extern "C" fn(*mut c_void, Nanos) -> c_int,
    /// [`Endpoint::offer`].
    pub offer: unsafe extern "C" fn(*mut c_void, Nanos, u64) -> c_int,
    /// [`Endpoint::stats`].
    pub stats: unsafe extern "C" fn(*mut c_void, *mut Stats) -> c_int,
    /// Copies the text of this thread's last fault, with a zero byte at its end, into a buffer of
    /// this size.
    pub fault: unsafe extern "C" fn(*mut c_char, usize),
}

// SAFETY: the table is immutable, and its pointers are those of static strings and functions.
unsafe impl Sync for Transport {}

/// Largest datagram in bytes.
const MOST_DATAGRAM: usize = 65_535;

/// An endpoint behind the C interface.
struct Foreign {
    of: &'static Transport,
    handle: *mut c_void,
    /// Text of the first fault; later calls have no effect.
    fault: RefCell<Option<String>>,
    buffer: Box<[u8]>,
}

// SAFETY: an endpoint is `Send` on the other side, and only one thread uses it at a time.
unsafe impl Send for Foreign {}

impl Foreign {
    fn call(&self, call: impl FnOnce(&'static Transport, *mut c_void) -> c_int) -> c_int {
        if self.fault.borrow().is_some() {
            return NONE;
        }
        let code = call(self.of, self.handle);
        if code == FAULT {
            *self.fault.borrow_mut() = Some(fault(self.of));
        }
        code
    }
}

fn fault(of: &Transport) -> String {
    let mut text = [0 as c_char; 512];
    // SAFETY: the function writes at most this many bytes, and the last byte stays zero.
    let text = unsafe {
        (of.fault)(text.as_mut_ptr(), text.len() - 1);
        CStr::from_ptr(text.as_ptr())
    };
    text.to_string_lossy().into_owned()
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // SAFETY: `open` returned the handle, and it is used no more.
        unsafe { (self.of.close)(self.handle) }
    }
}

impl Endpoint for Foreign {
    fn start(&mut self, now: Nanos) {
        // SAFETY: the handle is that of an open endpoint, here and below.
        self.call(|of, handle| unsafe { (of.start)(handle, now) });
    }
    fn handle(&mut self, now: Nanos, datagram: &mut [u8], ecn: Ecn) {
        self.call(|of, handle| unsafe {
            (of.handle)(
                handle,
                now,
                datagram.as_mut_ptr(),
                datagram.len(),
                ecn as u8,
            )
        });
    }
    fn poll(&mut self, now: Nanos, buffer: &mut Vec<u8>) -> Option<Ecn> {
        let (mut length, mut ecn) = (0, 0);
        let (to, size) = (self.buffer.as_mut_ptr(), self.buffer.len());
        let code = self
            .call(|of, handle| unsafe { (of.poll)(handle, now, to, size, &mut length, &mut ecn) });
        if code != GOOD {
            return None;
        }
        buffer.extend_from_slice(&self.buffer[..length.min(size)]);
        Some(Ecn::from_bits(ecn))
    }
    fn timeout(&self) -> Option<Nanos> {
        let mut at = 0;
        let code = self.call(|of, handle| unsafe { (of.timeout)(handle, &mut at) });
        (code == GOOD).then_some(at)
    }
    fn on_timeout(&mut self, now: Nanos) {
        self.call(|of, handle| unsafe { (of.on_timeout)(handle, now) });
    }
    fn offer(&mut self, now: Nanos, total: u64) {
        self.call(|of, handle| unsafe { (of.offer)(handle, now, total) });
    }
    fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.call(|of, handle| unsafe { (of.stats)(handle, &mut stats) });
        stats
    }
    fn fault(&self) -> Option<String> {
        self.fault.borrow().clone()
    }
}

/// The transports of a loaded library.
///
/// # Errors
///
/// The problem and its remedy, without the name of the library.
///
/// # Safety
///
/// `export` is the function `narrows_transports` of a library that is never unloaded.
pub unsafe fn kinds(export: Export) -> Result<Vec<Kind>, String> {
    let mut table = core::ptr::null();
    // SAFETY: the function stores the address of a static table and returns its length.
    let table: &'static [Transport] = unsafe {
        let count = export(&mut table);
        if table.is_null() || count == 0 {
            return Err("exports no transport".into());
        }
        core::slice::from_raw_parts(table, count)
    };
    table.iter().map(kind).collect()
}

fn kind(of: &'static Transport) -> Result<Kind, String> {
    if of.abi != ABI {
        return Err(format!(
            "has version {} of the interface of transports, not {ABI}; build it again: make \
             adapters",
            of.abi
        ));
    }
    // SAFETY: the strings of a table are static and end with a zero byte.
    let text = |text: *const c_char| -> &'static str {
        unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
    };
    let open = move |setting: &Setting<'_>| -> Result<Box<dyn Endpoint>, String> {
        let mut cc = setting.cc.as_bytes().to_owned();
        cc.push(0);
        let raw = RawSetting {
            role: u32::from(setting.role == Role::Receiver),
            ecn: u32::from(setting.ecn),
            cc: cc.as_ptr().cast(),
            seed: setting.seed,
            mtu: setting.mtu,
        };
        // SAFETY: the setting outlives the call.
        let handle = unsafe { (of.open)(&raw) };
        if handle.is_null() {
            return Err(fault(of));
        }
        Ok(Box::new(Foreign {
            of,
            handle,
            fault: RefCell::new(None),
            buffer: alloc::vec![0; MOST_DATAGRAM].into_boxed_slice(),
        }))
    };
    Ok(Kind {
        name: text(of.name),
        version: text(of.version),
        help: text(of.help),
        ccs: text(of.ccs).split(',').collect(),
        headers: u16::try_from(of.headers).unwrap_or(crate::UDP_HEADERS),
        open: Box::leak(Box::new(open)),
    })
}

/// The side of the adapter. [`export!`](crate::export) uses these functions.
pub mod adapter {
    use super::{FAULT, GOOD, NONE, RawSetting};
    use crate::{Ecn, Endpoint, Nanos, Role, Setting, Stats};
    use alloc::boxed::Box;
    use alloc::string::String;
    use alloc::vec::Vec;
    use core::ffi::{CStr, c_char, c_int, c_void};

    /// An endpoint and a buffer.
    pub struct Held(Box<dyn Endpoint>, Vec<u8>);

    /// Pointer to a new endpoint.
    pub fn held(endpoint: Box<dyn Endpoint>) -> *mut c_void {
        Box::into_raw(Box::new(Held(endpoint, Vec::new()))).cast()
    }

    /// Deletes an endpoint.
    ///
    /// # Safety
    ///
    /// `handle` comes from [`held`] and is used no more.
    pub unsafe fn close(handle: *mut c_void) {
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(handle.cast::<Held>()) });
    }

    /// # Safety
    ///
    /// `handle` comes from [`held`], and no other reference to its endpoint exists.
    unsafe fn of<'a>(handle: *mut c_void) -> &'a mut Held {
        // SAFETY: as above.
        unsafe { &mut *handle.cast::<Held>() }
    }

    /// The setting of a call of `open`.
    ///
    /// # Safety
    ///
    /// `raw` is valid for the lifetime of the result.
    pub unsafe fn setting<'a>(raw: *const RawSetting) -> Setting<'a> {
        // SAFETY: as above; the string ends with a zero byte.
        let (raw, cc) = unsafe { (&*raw, CStr::from_ptr((*raw).cc)) };
        Setting {
            role: if raw.role == 0 {
                Role::Sender
            } else {
                Role::Receiver
            },
            cc: cc.to_str().unwrap_or(""),
            ecn: raw.ecn != 0,
            seed: raw.seed,
            mtu: raw.mtu,
        }
    }

    /// A call of an endpoint.
    ///
    /// # Safety
    ///
    /// `handle` comes from [`held`], here and below.
    pub unsafe fn act(handle: *mut c_void, act: impl FnOnce(&mut dyn Endpoint)) -> c_int {
        // SAFETY: as above.
        let held = unsafe { of(handle) };
        act(&mut *held.0);
        code(held.0.fault())
    }

    fn code(fault: Option<String>) -> c_int {
        match fault {
            None => GOOD,
            Some(text) => panic_with(text),
        }
    }

    /// A fault that the adapter reports becomes a panic, which the C function catches.
    #[allow(clippy::panic)]
    fn panic_with(text: String) -> ! {
        panic!("{text}")
    }

    /// [`Endpoint::handle`].
    ///
    /// # Safety
    ///
    /// As [`act`]; `data` has `length` bytes.
    pub unsafe fn handle(
        endpoint: *mut c_void,
        now: Nanos,
        data: *mut u8,
        length: usize,
        ecn: u8,
    ) -> c_int {
        // SAFETY: as above.
        unsafe {
            let data = core::slice::from_raw_parts_mut(data, length);
            act(endpoint, |e| e.handle(now, data, Ecn::from_bits(ecn)))
        }
    }

    /// [`Endpoint::poll`].
    ///
    /// # Safety
    ///
    /// As [`act`]; the buffer has `size` bytes.
    pub unsafe fn poll(
        endpoint: *mut c_void,
        now: Nanos,
        buffer: *mut u8,
        size: usize,
        length: *mut usize,
        ecn: *mut u8,
    ) -> c_int {
        // SAFETY: as above.
        let Held(endpoint, datagram) = unsafe { of(endpoint) };
        datagram.clear();
        let Some(bits) = endpoint.poll(now, datagram) else {
            return if endpoint.fault().is_some() {
                code(endpoint.fault())
            } else {
                NONE
            };
        };
        if datagram.len() > size {
            let length = datagram.len();
            panic_with(alloc::format!(
                "a datagram of {length} bytes is longer than the buffer of {size} bytes"
            ));
        }
        // SAFETY: the buffer has room for the datagram.
        unsafe {
            core::ptr::copy_nonoverlapping(datagram.as_ptr(), buffer, datagram.len());
            *length = datagram.len();
            *ecn = bits as u8;
        }
        GOOD
    }

    /// [`Endpoint::timeout`].
    ///
    /// # Safety
    ///
    /// As [`act`].
    pub unsafe fn timeout(endpoint: *mut c_void, at: *mut Nanos) -> c_int {
        // SAFETY: as above.
        match unsafe { of(endpoint) }.0.timeout() {
            Some(due) => {
                // SAFETY: as above.
                unsafe { *at = due };
                GOOD
            }
            None => NONE,
        }
    }

    /// [`Endpoint::stats`].
    ///
    /// # Safety
    ///
    /// As [`act`].
    pub unsafe fn stats(endpoint: *mut c_void, to: *mut Stats) -> c_int {
        // SAFETY: as above.
        unsafe { *to = of(endpoint).0.stats() };
        GOOD
    }

    /// Copies a text with a zero byte at its end.
    ///
    /// # Safety
    ///
    /// The buffer has `size` bytes.
    pub unsafe fn copy(text: &str, to: *mut c_char, size: usize) {
        let length = text.len().min(size.saturating_sub(1));
        // SAFETY: as above.
        unsafe {
            core::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, length);
            if size > 0 {
                *to.add(length) = 0;
            }
        }
    }

    /// The code that a call returns after a panic.
    pub const PANICKED: c_int = FAULT;
}

/// Exports transports from a shared library. A row begins with a name, the version of the stack, a
/// line of help, and the congestion controls separated by commas. Then follow the bytes of the
/// headers, and a function from a [`Setting`](crate::Setting) to a boxed
/// [`Endpoint`](crate::Endpoint).
///
/// ```ignore
/// narrows_endpoint::export! {
///     { "mine", "mine 1.0", "my transport", "cubic,bbr", narrows_endpoint::UDP_HEADERS, open }
/// }
/// ```
#[macro_export]
macro_rules! export {
    ($({
        $name:literal, $version:expr, $help:literal, $ccs:literal, $headers:expr, $open:ident
    })*) => {
        mod narrows_exported {
            extern crate std;
            use ::core::ffi::{c_char, c_int, c_void};
            use $crate::raw::adapter;
            use std::panic::{AssertUnwindSafe, catch_unwind};
            use std::string::{String, ToString as _};

            std::thread_local! {
                static FAULT: ::core::cell::RefCell<String> =
                    const { ::core::cell::RefCell::new(String::new()) };
            }

            /// Runs a call; a panic becomes a fault.
            fn caught<T>(instead: T, call: impl FnOnce() -> T) -> T {
                static QUIET: std::sync::Once = std::sync::Once::new();
                QUIET.call_once(|| std::panic::set_hook(std::boxed::Box::new(|panic| {
                    let place = panic.location().map(ToString::to_string).unwrap_or_default();
                    let payload = panic.payload();
                    let text = payload.downcast_ref::<&str>().copied().map(String::from)
                        .or_else(|| payload.downcast_ref::<String>().cloned())
                        .unwrap_or_default();
                    FAULT.set(std::format!("{text} ({place})"));
                })));
                catch_unwind(AssertUnwindSafe(call)).unwrap_or(instead)
            }
            unsafe extern "C" fn close(endpoint: *mut c_void) {
                caught((), || unsafe { adapter::close(endpoint) })
            }
            unsafe extern "C" fn start(endpoint: *mut c_void, now: u64) -> c_int {
                caught(adapter::PANICKED, || unsafe { adapter::act(endpoint, |e| e.start(now)) })
            }
            unsafe extern "C" fn handle(
                endpoint: *mut c_void, now: u64, data: *mut u8, length: usize, ecn: u8,
            ) -> c_int {
                caught(adapter::PANICKED, || unsafe {
                    adapter::handle(endpoint, now, data, length, ecn)
                })
            }
            unsafe extern "C" fn poll(
                endpoint: *mut c_void, now: u64, to: *mut u8, size: usize, length: *mut usize,
                ecn: *mut u8,
            ) -> c_int {
                caught(adapter::PANICKED, || unsafe {
                    adapter::poll(endpoint, now, to, size, length, ecn)
                })
            }
            unsafe extern "C" fn timeout(endpoint: *mut c_void, at: *mut u64) -> c_int {
                caught(adapter::PANICKED, || unsafe { adapter::timeout(endpoint, at) })
            }
            unsafe extern "C" fn on_timeout(endpoint: *mut c_void, now: u64) -> c_int {
                caught(adapter::PANICKED, || unsafe {
                    adapter::act(endpoint, |e| e.on_timeout(now))
                })
            }
            unsafe extern "C" fn offer(endpoint: *mut c_void, now: u64, total: u64) -> c_int {
                caught(adapter::PANICKED, || unsafe {
                    adapter::act(endpoint, |e| e.offer(now, total))
                })
            }
            unsafe extern "C" fn stats(endpoint: *mut c_void, to: *mut $crate::Stats) -> c_int {
                caught(adapter::PANICKED, || unsafe { adapter::stats(endpoint, to) })
            }
            unsafe extern "C" fn fault(to: *mut c_char, size: usize) {
                FAULT.with_borrow(|text| unsafe { adapter::copy(text, to, size) });
            }

            static TABLE: &[$crate::raw::Transport] = &[$({
                unsafe extern "C" fn open(setting: *const $crate::raw::RawSetting) -> *mut c_void {
                    caught(::core::ptr::null_mut(), || {
                        let setting = unsafe { adapter::setting(setting) };
                        match super::$open(&setting) {
                            Ok(endpoint) => adapter::held(endpoint),
                            Err(text) => {
                                FAULT.set(text);
                                ::core::ptr::null_mut()
                            }
                        }
                    })
                }
                $crate::raw::Transport {
                    abi: $crate::raw::ABI,
                    headers: $headers as u32,
                    name: concat!($name, "\0").as_ptr().cast(),
                    version: concat!($version, "\0").as_ptr().cast(),
                    help: concat!($help, "\0").as_ptr().cast(),
                    ccs: concat!($ccs, "\0").as_ptr().cast(),
                    open, close, start, handle, poll, timeout, on_timeout, offer, stats, fault,
                }
            }),*];

            /// The transports of this library.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn narrows_transports(
                to: *mut *const $crate::raw::Transport,
            ) -> usize {
                unsafe { *to = TABLE.as_ptr() };
                TABLE.len()
            }
        }
    };
}
