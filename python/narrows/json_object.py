"""The type of JSON whose keys are data, or which is not validated yet."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]
"""A JSON object.

Documents that narrows writes have a type of their own, in the module `model` of their package.
"""
