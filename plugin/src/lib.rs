//! Congestion controls and queue disciplines from outside of narrows.
//!
//! A plugin is a crate that builds a shared library (`crate-type = ["cdylib"]`). It implements
//! [`CongestionControl`](narrows_core::cc::CongestionControl) or
//! [`QueueDiscipline`](narrows_core::queue::QueueDiscipline), and exports its models once, with
//! [`export!`].
//!
//! | module | contents |
//! |---|---|
//! | [`erased`] | the packet type of a plugin, and queue disciplines of a plugin for every driver |
//! | [`guard`] | the side of the plugin: a panic becomes a report |
//! | [`monitor`] | the side of narrows: checks of a model's results, its faults, the present event |
//! | [`interface`] | the types and the tag that both sides share |
//! | `library` | opening of a shared library |
//! | [`load`] | loading of a plugin; with `library`, the only unsafe code |
//!
//! The following library exports a congestion control that keeps its initial window until a loss:
//!
//! ```
//! use narrows_plugin::core::cc::{Ack, CcKind, CongestionControl, Family, Loss, Window};
//!
//! #[derive(Clone)]
//! struct Constant;
//!
//! impl CongestionControl for Constant {
//!     fn on_ack(&mut self, _window: &mut Window, _event: &Ack) {}
//!     fn on_loss(&mut self, window: &mut Window, _event: &Loss) {
//!         window.ssthresh = (window.cwnd / 2).max(2);
//!     }
//!     fn fork(&self) -> Box<dyn CongestionControl> {
//!         Box::new(self.clone())
//!     }
//! }
//!
//! pub const KIND: CcKind = CcKind {
//!     name: "constant",
//!     help: "a constant window",
//!     source: "this example",
//!     family: Family::Loss,
//!     year: 2026,
//!     needs: &[],
//!     default_in: &[],
//!     params: &[],
//!     make: &|_params, _host| Box::new(Constant),
//! };
//!
//! narrows_plugin::export! { ccs: [KIND], queues: [] }
//! # fn main() {}
//! ```
//!
//! A library may contain transports instead, with the interface of `narrows-endpoint`.
//!
//! **Compatibility.** Rust has no stable ABI. A plugin contains the tag [`TAG`], which `load`
//! compares before it calls any other function of the plugin. The tag consists of the version of
//! narrows, a hash of the source files that declare the shared types, and the version of the
//! compiler.
//!
//! **Memory.** Both sides use the system's allocator, so that values may be freed on the other
//! side. A plugin must not set a global allocator. A loaded library is never unloaded.

pub mod erased;
pub mod guard;
pub mod interface;
mod library;
pub mod load;
pub mod monitor;

pub use erased::AnyPacket;
pub use interface::{Host, Models, TAG, tag};
pub use narrows_core as core;

/// Exports the models of a plugin: `export! { ccs: [KIND], queues: [kind()] }`. Both lists may be
/// empty.
#[macro_export]
macro_rules! export {
    (ccs: [$($cc:expr),* $(,)?], queues: [$($queue:expr),* $(,)?] $(,)?) => {
        /// The tag of this plugin, as a string that ends with a zero byte.
        #[unsafe(no_mangle)]
        pub extern "C" fn narrows_plugin_tag() -> *const ::core::ffi::c_char {
            static TAG: ::std::sync::OnceLock<::std::ffi::CString> = ::std::sync::OnceLock::new();
            TAG.get_or_init(|| ::std::ffi::CString::new($crate::tag()).unwrap_or_default())
                .as_ptr()
        }
        /// The models of this plugin.
        #[unsafe(no_mangle)]
        pub fn narrows_plugin_models(host: $crate::Host) -> $crate::Models {
            $crate::guard::guarded(host, || $crate::Models {
                ccs: vec![$($cc),*],
                queues: vec![$($queue),*],
            })
        }
    };
}
