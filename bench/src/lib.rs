//! Benchmarks: `benches/` and `bin/scale.rs` measure, `../scale.py` and `../process.py` ask them; `make bench` runs all.
