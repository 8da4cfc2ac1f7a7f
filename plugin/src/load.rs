//! Loading of a plugin. This module and `library` contain the only unsafe code of this crate, apart
//! from the code that [`export!`](crate::export) generates.
//!
//! A library runs code when it is loaded, with all rights of the process. Callers load only files
//! that the user named.

use crate::interface::{Host, Models, tag};
use crate::library::{open, symbol};
use crate::monitor;
use narrows_core::registry::endpoint::{Kind, raw};
use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

type Tag = extern "C" fn() -> *const c_char;
type Export = fn(Host) -> Models;

/// The transports of the shared library `file`; `None` if the library exports no transports and may
/// be a plugin with models. Errors are those of [`load`].
pub fn transports(file: &Path) -> Result<Option<Vec<Kind>>, String> {
    let library = open(file)?;
    let Some(export) = symbol(library, raw::SYMBOL) else {
        return Ok(None);
    };
    // SAFETY: the macro `export!` of narrows-endpoint declares this symbol with this type, and the
    // library is never unloaded.
    let kinds = unsafe { raw::kinds(std::mem::transmute::<*mut c_void, raw::Export>(export)) };
    kinds.map(Some)
}

/// The models of the shared library `file`. The error names the problem and the remedy, without the
/// name of the file.
pub fn load(file: &Path) -> Result<Models, String> {
    let library = open(file)?;
    let other = symbol(library, c"narrows_plugin_tag").ok_or(
        "is not a plugin: it has no function narrows_plugin_tag; export the models with \
         narrows_plugin::export!",
    )?;
    // SAFETY: `export!` declares this symbol with this type, in every version of narrows.
    let other = unsafe { std::mem::transmute::<*mut c_void, Tag>(other) };
    // SAFETY: the function returns a static string that ends with a zero byte.
    let theirs = unsafe { CStr::from_ptr(other()) }.to_string_lossy();
    let ours = tag();
    if theirs != ours {
        return Err(format!(
            "was built for another narrows or by another compiler\n    plugin:  {theirs}\n    \
             narrows: {ours}\n    build the plugin again: cargo build --release, with \
             narrows-plugin of this narrows and this rustc"
        ));
    }
    let export = symbol(library, c"narrows_plugin_models")
        .ok_or("has no function narrows_plugin_models; build the plugin again")?;
    // SAFETY: equal tags mean the same compiler and the same declarations, so this is the type that
    // `export!` gave the symbol.
    let export = unsafe { std::mem::transmute::<*mut c_void, Export>(export) };
    Ok(export(Host {
        fail: monitor::fail,
    }))
}
