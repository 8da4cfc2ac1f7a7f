//! Benchmarks live in `benches/`; `make bench` runs them.
