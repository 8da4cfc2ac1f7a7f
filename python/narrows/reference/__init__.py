"""Reference cases: scenarios with the metrics that runs of a real Linux kernel had."""
