//! The simulator as a WebAssembly module, for the lab in the browser.
//!
//! | module | contents |
//! |---|---|
//! | `command` | the commands of the page: list, check, start, advance, finish, window, trace |
//! | `session` | a run in slices, and the rows that the page has not read yet |
//! | `columns` | columns of numbers behind the JSON of an answer |
//!
//! **Interface.** The page requests memory for a command with [`narrows_input`], writes the command
//! in JSON there, and calls [`narrows_call`]. The output is at [`narrows_output`]: four bytes with
//! the length of a JSON text (little-endian), and the text. Zeros up to a multiple of eight bytes
//! follow, then columns of 64-bit floating-point numbers. The JSON lists the columns in order.
//!
//! An error is an answer, too: `{"error": …}`, or `{"errors": […]}` for errors in a scenario. A
//! trap of WebAssembly is caused by a bug or by exhausted memory; the page then creates a new
//! instance of the module.

mod columns;
mod command;
mod session;

pub use command::answer;
pub use session::Session;

use std::cell::RefCell;

/// Maximum size of a command, in bytes. A scenario has a few kilobytes; the files of traces that it
/// names are the larger part.
const MOST_INPUT: usize = 64 << 20;

#[derive(Default)]
struct State {
    input: Vec<u8>,
    output: Vec<u8>,
    session: Session,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Returns the address of `len` bytes for the next command, or null if `len` exceeds the maximum
/// size.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_input(len: usize) -> *mut u8 {
    STATE.with_borrow_mut(|state| {
        if len > MOST_INPUT {
            return std::ptr::null_mut();
        }
        state.input = vec![0; len];
        state.input.as_mut_ptr()
    })
}

/// Executes the command that was written to [`narrows_input`], and returns the length of the output
/// in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_call() -> usize {
    STATE.with_borrow_mut(|state| {
        let input = std::mem::take(&mut state.input);
        state.output = answer(&mut state.session, &input);
        state.output.len()
    })
}

/// Returns the address of the output of the last [`narrows_call`].
#[unsafe(no_mangle)]
pub extern "C" fn narrows_output() -> *const u8 {
    STATE.with_borrow(|state| state.output.as_ptr())
}
