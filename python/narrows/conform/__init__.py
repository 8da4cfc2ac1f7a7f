"""Conformance checks of transports and congestion controls."""
