"""Presentation: tables, sentences, pictures, the report page and the terminal. Figures are computed
elsewhere.
"""
