"""The table of vhosts of one store, as commands change it."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.broker.common import Common
from forebay.broker.vhost import Vhost
from forebay.core.options import Options
from forebay.log.store import Store
from forebay.queue.properties import Looks

DEFAULT: Final = b"/"


class VhostTable:
    """All vhosts by name.

    default  "/", which is always there and never goes
    others   the rest
    stopped_in_order  the broker that wrote the log did, so that nothing was held
    """

    def __init__(self, store: Store, options: Options) -> None:
        self.store = store
        self.options = options
        self.common = Common()
        self.common.looks = Looks(options.filter_work_a_turn)
        self.default = Vhost(DEFAULT, store, options, 0, self.common)
        self.by_name: dict[bytes, Vhost] = {DEFAULT: self.default}
        self.by_number: dict[int, Vhost] = {0: self.default}
        self.others: list[Vhost] = []
        self.next_number: i64 = 1
        self.stopped_in_order = False

    def make(self, name: bytes, number: i64) -> Vhost:
        vhost = Vhost(name, self.store, self.options, number, self.common)
        self.by_name[name] = vhost
        self.by_number[number] = vhost
        self.others.append(vhost)
        self.next_number = max(self.next_number, number + 1)
        return vhost

    def remove(self, vhost: Vhost) -> None:
        """Forget a vhost."""
        del self.by_name[vhost.name]
        del self.by_number[vhost.number]
        self.others.remove(vhost)
