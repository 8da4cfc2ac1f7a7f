"""Sweeps: run a scenario with many combinations of values. Each run is executed once, stored when
it finishes, and read as a row of one table.
"""
