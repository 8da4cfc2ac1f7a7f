"""Checks of the source tree that `make lint` runs."""
