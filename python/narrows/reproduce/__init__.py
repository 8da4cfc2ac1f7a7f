"""Published experiments, run again: ours beside theirs, with tolerances that were written down
before.
"""
