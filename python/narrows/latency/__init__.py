"""Measures the response time of a host over UDP, and attributes the delay to application, kernel
and network.
"""
