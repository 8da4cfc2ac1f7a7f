//! The virtual world of narrows.
