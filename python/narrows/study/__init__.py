"""Studies. Each consists of a question, the sweeps that answer it, and a verdict with tables and a
plot.
"""
