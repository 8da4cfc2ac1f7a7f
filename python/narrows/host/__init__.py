"""The machine that narrows runs on: the live engine, the far end of measurements, shells over
emulated paths.
"""
