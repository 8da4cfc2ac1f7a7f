"""narrows."""
from narrows._core import __version__
