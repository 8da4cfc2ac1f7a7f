"""Presentation: tables, sentences, pictures, the report page and the terminal. Other packages
compute the numbers.
"""
