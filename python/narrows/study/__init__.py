"""Studies: a question, the sweep that answers it, and the verdict in words, a table and a
picture.
"""
