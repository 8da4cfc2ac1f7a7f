"""Demonstrations, lessons and exercises."""
