"""Comparison of measurements and of latency results: confidence intervals and tests for a
difference.
"""
