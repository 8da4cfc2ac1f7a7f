//! The extension module `narrows._core` (to be written).
