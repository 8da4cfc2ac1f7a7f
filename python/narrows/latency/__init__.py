"""Response time of a host over UDP, and the attribution of the delay to application, kernel and
network.
"""
