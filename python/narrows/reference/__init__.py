"""Reference cases: scenarios with the metrics that a Linux kernel had."""
