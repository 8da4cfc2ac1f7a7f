"""Checks of the source tree, which `make lint` runs, and generators of documentation."""
