"""The promises of a group, by number, and the error that says which is broken.

1  what was confirmed is never lost: it is there once, and in the order of its publisher
2  logs are the same up to what each member knows to be committed
3  an epoch has one leader, and one life of its process
4  a delivered record never vanishes
5  never do two leaders deliver at once
6  8 s after all is well again publishers have confirms, and all members are in sync
7  settlements stay
8  every store in the register's in-sync set has all that was ever committed, synced
"""

from __future__ import annotations


class Violation(Exception):
    """A promise is broken; the text begins with its number."""
