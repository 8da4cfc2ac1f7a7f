"""Repeats published experiments and compares the results of narrows with the published ones. The
accepted ranges were fixed before the first run.
"""
