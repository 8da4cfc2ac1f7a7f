"""Measurement of a real path: the command, the run, its result, and how it is presented."""
