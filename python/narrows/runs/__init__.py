"""Scenarios, the runs of scenarios by an engine, and the results."""
