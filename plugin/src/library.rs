//! Opening of shared libraries with dlopen(3).
//!
//! Windows has no such function. Plugins are refused there; everything else works without them.

#[cfg(not(unix))]
pub(crate) use elsewhere::{open, symbol};
#[cfg(unix)]
pub(crate) use posix::{open, symbol};

#[cfg(unix)]
mod posix {
    use std::ffi::{CStr, CString, c_void};
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    /// The handle of the shared library `file`, which is never closed. Its functions and statics
    /// therefore stay valid.
    pub(crate) fn open(file: &Path) -> Result<*mut c_void, String> {
        let place = std::fs::canonicalize(file).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "does not exist".to_owned(),
            _ => format!("cannot be read ({error})"),
        })?;
        let name = CString::new(place.as_os_str().as_bytes())
            .map_err(|_| "the name contains a zero byte".to_owned())?;
        // SAFETY: the name ends with a zero byte.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(format!("cannot be loaded: {}", last_error()));
        }
        Ok(library)
    }

    /// The address of a function or a static of an open library.
    pub(crate) fn symbol(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is that of an open library, and the name ends with a zero byte.
        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }

    fn last_error() -> String {
        // SAFETY: dlerror returns null, or a string that is valid until this thread calls it again.
        let said = unsafe { libc::dlerror() };
        if said.is_null() {
            return "no reason".into();
        }
        // SAFETY: as above; the string is copied at once.
        unsafe { CStr::from_ptr(said) }
            .to_string_lossy()
            .into_owned()
    }
}

#[cfg(not(unix))]
mod elsewhere {
    use std::ffi::{CStr, c_void};
    use std::path::Path;

    pub(crate) fn open(_file: &Path) -> Result<*mut c_void, String> {
        Err("cannot be loaded: plugins need Linux or macOS; run the scenario there".to_owned())
    }

    pub(crate) fn symbol(_library: *mut c_void, _name: &CStr) -> Option<*mut c_void> {
        None
    }
}
