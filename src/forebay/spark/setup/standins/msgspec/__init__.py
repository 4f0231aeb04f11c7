"""A stand-in for the part of msgspec that executors need."""

from forebay.spark.setup.standins.msgspec import json
from forebay.spark.setup.standins.msgspec.json import DecodeError

__all__ = ["DecodeError", "json"]
