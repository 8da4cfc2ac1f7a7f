"""Linux kernels as user-space processes in virtual time: source, build, runs, and rules of
releases.
"""
