"""Of msgspec that which executors need."""

from forebay.spark.setup.standins.msgspec import json
from forebay.spark.setup.standins.msgspec.json import DecodeError

__all__ = ["DecodeError", "json"]
