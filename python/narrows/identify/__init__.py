"""Congestion controls of the senders in a capture.

The module `flow` reconstructs the data in flight of each connection, and `features` its reactions
to losses. The module `rules` compares these with the rules of congestion controls.
"""
