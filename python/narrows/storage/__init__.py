"""Reads and writes files: durable writes, size limits for files that are read, and the provenance
of results.
"""
