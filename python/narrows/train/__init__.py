"""Training of congestion controls: the published search for the rule trees of `remy`."""
