"""The octets of what is ready, for a limit on them."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64


@final
class ReadyOctets:
    """The octets of the bodies of what is ready, for a limit on them.

    measuring  they are kept, of the records below `measured`
    """

    def __init__(self) -> None:
        self.measuring = False
        self.measured: i64 = 0
        self.count: i64 = 0
