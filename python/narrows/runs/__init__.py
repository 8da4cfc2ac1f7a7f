"""Scenarios, their runs by an engine, and results."""
