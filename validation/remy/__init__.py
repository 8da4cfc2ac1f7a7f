"""The training of a rule tree for `remy` within a small budget, and its judgement."""
