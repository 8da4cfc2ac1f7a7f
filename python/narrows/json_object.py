"""The type of JSON objects whose keys are data, or which are not validated yet."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]
"""A JSON object.

A document that narrows writes has its own type in the module `model` of the package that writes it.
"""
