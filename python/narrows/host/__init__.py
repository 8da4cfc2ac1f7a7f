"""The machine that narrows runs on: the live engine, the server for measurements, shells over
emulated paths.
"""
