"""Functions of numbers: roots, powers, logarithms, angles, and the distance between two places."""

from __future__ import annotations

import math
from typing import Final

EARTH_RADIUS_M: Final = 6_371_008.8  # the mean radius of the International Union of Geodesy and Geophysics
BUCKETS_MAX: Final = 1 << 31

# How many numbers each takes.
NUMERIC: Final = {
    "SQRT": 1,
    "POWER": 2,
    "EXP": 1,
    "LN": 1,
    "LOG2": 1,
    "LOG10": 1,
    "SIN": 1,
    "COS": 1,
    "TAN": 1,
    "ASIN": 1,
    "ACOS": 1,
    "ATAN": 1,
    "ATAN2": 2,
    "DEGREES": 1,
    "RADIANS": 1,
    "WIDTH_BUCKET": 4,
    "GEO_DISTANCE": 4,
}


def of_numbers(name: str, values: list[float]) -> object:
    """One of NUMERIC; None where it has no value, such as the root of a number below 0."""
    try:
        if name == "WIDTH_BUCKET":
            return bucket_of(values)
        if name == "GEO_DISTANCE":
            return distance_m(values)
        if len(values) == 2:
            return math.pow(values[0], values[1]) if name == "POWER" else math.atan2(values[0], values[1])
        return of_one(name, values[0])
    except (ValueError, OverflowError):
        return None


def of_one(name: str, value: float) -> float:
    if name == "SQRT":
        return math.sqrt(value)
    if name == "EXP":
        return math.exp(value)
    if name == "LN":
        return math.log(value)
    if name == "LOG2":
        return math.log2(value)
    if name == "LOG10":
        return math.log10(value)
    if name == "DEGREES":
        return math.degrees(value)
    if name == "RADIANS":
        return math.radians(value)
    return angle(name, value)


def angle(name: str, value: float) -> float:
    if name == "SIN":
        return math.sin(value)
    if name == "COS":
        return math.cos(value)
    if name == "TAN":
        return math.tan(value)
    if name == "ASIN":
        return math.asin(value)
    if name == "ACOS":
        return math.acos(value)
    assert name == "ATAN", name
    return math.atan(value)


def bucket_of(values: list[float]) -> object:
    """Return the number of a value's bucket as SQL's WIDTH_BUCKET does.

    0 is below the first bucket, their number and 1 above the last. The bounds may descend.
    """
    value, low, high, count = values
    if low == high or not 1 <= count <= BUCKETS_MAX or count != math.floor(count):
        return None
    share = (value - low) / (high - low)
    if share - share != 0.0:  # an infinite or no number
        return None
    if share < 0.0:
        return 0
    return min(int(share * count), int(count)) + 1


def distance_m(values: list[float]) -> object:
    """Metres along the earth's surface, taken as a sphere."""
    latitude, longitude, other_latitude, other_longitude = values
    if abs(latitude) > 90.0 or abs(other_latitude) > 90.0:
        return None
    one = math.radians(latitude)
    other = math.radians(other_latitude)
    half = math.sin((other - one) / 2.0)
    across = math.sin(math.radians(other_longitude - longitude) / 2.0)
    # Of two places opposite each other rounding may take it beyond 1.
    share = min(1.0, half * half + math.cos(one) * math.cos(other) * across * across)
    return 2.0 * EARTH_RADIUS_M * math.asin(math.sqrt(share))
