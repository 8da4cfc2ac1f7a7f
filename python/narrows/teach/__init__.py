"""Demonstrations and lessons."""
