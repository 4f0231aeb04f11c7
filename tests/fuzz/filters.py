"""Filters by chance: of everything that their language has, and in few cases not quite of it."""

from __future__ import annotations

from random import Random
from typing import Final

from forebay.filter.functions import FUNCTIONS

NAMES: Final = (
    "/n",
    "/tags/b",
    "/a[0]/'b c'",
    "header.colour",
    "octets",
    "age_ms",
    "routing_key",
    "priority",
    "stored_ms",
)
LITERALS: Final = (
    "5",
    "-1",
    "2.5",
    "1e308",
    "9223372036854775807",
    "'red'",
    '"it""s"',
    "''",
    "TRUE",
    "NULL",
    "'%Y-%j'",
)
SIGNS: Final = ("=", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "AND", "OR")
PATTERNS: Final = ("'^a.*b$'", "'(?i)[[:alpha:]]+'", "'(a|b)*c'", "'[^a-z]{2,5}'", r"'\\d\\b'", "'^(?!amq\\.)'", "'('")


def made_up(chance: Random, depth: int = 3) -> str:
    """An expression of at most that depth."""
    kind = chance.randrange(10) if depth else chance.randrange(3)
    if kind < 2:
        return chance.choice(NAMES)
    if kind == 2:
        return chance.choice(LITERALS)
    inner = made_up(chance, depth - 1)
    if kind < 6:
        return f"{inner} {chance.choice(SIGNS)} {made_up(chance, depth - 1)}"
    if kind == 6:
        name = chance.choice(list(FUNCTIONS))
        return f"{name}({', '.join([inner] + [made_up(chance, 1) for _ in range(chance.randrange(4))])})"
    if kind == 7:
        return f"{inner} {chance.choice(('', 'NOT '))}LIKE {chance.choice(PATTERNS)}"
    if kind == 8:
        other = made_up(chance, 0)
        form = chance.choice(
            ("{0} BETWEEN {1} AND 9", "{0} IN ({1}, 2, 'x')", "{0} IS NOT NULL", "{0} BEGINS WITH 'x'")
        )
        return form.format(inner, other)
    return chance.choice((f"NOT {inner}", f"({inner})", f"IF({inner}, 1, 'a')", f"COALESCE({inner}, 0)"))
