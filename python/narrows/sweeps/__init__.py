"""Sweeps: thousands of cases, each run once, kept as they finish, read as one table."""
