"""The screen of `forebay top`, and the view that its keys have chosen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from forebay.cli.manage.status import oldest_said
from forebay.cli.show import cell
from forebay.cli.units import octets_said, period_said, rate_said, rates, seconds_between
from forebay.client.control import ControlClient
from forebay.core.errors import ForebayError

if TYPE_CHECKING:
    from rich.console import RenderableType

COLUMNS: Final = ("queue", "ready", "unacked", "consumers", "in", "out", "acked", "oldest", "vhost")
CONSUMER_COLUMNS: Final = ("queue", "consumer", "held", "ready", "acked", "connection", "vhost")
WORDS: Final = {"queue", "vhost", "consumer"}
# A key, the column that it sorts by, and whether the largest comes first.
ORDERS: Final[dict[str, tuple[str, bool]]] = {
    "r": ("ready", True),
    "u": ("unacked", True),
    "i": ("in", True),
    "o": ("out", True),
    "a": ("oldest_ms", True),
    "n": ("queue", False),
}
HELP: Final = "q quit  r ready  u unacked  i in  o out  a age  n name  c slow consumers  / find  space pause"
HEAD_LINES: Final = 6  # lines above and below the rows
SUSPECTS_MAX: Final = 50  # queues whose consumers are fetched
CONSUMERS_MAX: Final = 20  # consumers fetched of each of these queues
ESCAPE: Final = "\x1b"
ENTER: Final = "\r\n"
DELETE: Final = "\x7f\b"
Row = dict[str, Any]


class Screen:
    """The screen of `forebay top`, and the view that its keys have chosen.

    broker      the broker's last answer
    rows        the broker's queues, each with its rates since the previous fetch
    slow        consumers that held messages at two fetches in a row while their queue had more
    away_since  when the broker went away, in seconds since 1970; None while it answers
    finding     whether keys are the text of a search
    """

    def __init__(self, connect: Callable[[], ControlClient], order: str, find: str) -> None:
        self.order = order
        self.find = find
        self.finding = False
        self.held = False
        self.consumers = False
        self.broker: Row = {}
        self.rates: dict[str, float] = {}
        self.rows: list[Row] = []
        self.slow: list[Row] = []
        self.away_since: float | None = None
        self.why = ""
        self._connect = connect
        self._client: ControlClient | None = None
        self._before: dict[tuple[str, str], Row] = {}
        self._holding: set[tuple[object, ...]] = set()

    def look(self) -> None:
        """Fetch the broker's state. Raises ForebayError if the broker does not answer."""
        if self._client is None:
            self._client = self._connect()
            self._before, self._holding = {}, set()
        broker: Row = self._client.run("broker.status")
        known = self.broker if self._before else broker
        self.rates = rates(known, broker, seconds_between(known, broker))
        self.broker = broker
        rows: list[Row] = []
        for queue in queue_stats(self._client.run):
            place = (queue["vhost"], queue["queue"])
            before = self._before.get(place, queue)
            rows.append({**queue, **rates(before, queue, seconds_between(before, queue))})
        self.rows = rows
        self._before = {(row["vhost"], row["queue"]): row for row in rows}
        self._look_at_consumers(self._client)
        self.away_since = None

    def try_look(self) -> None:
        """Fetch the broker's state. If it does not answer, record since when and why."""
        try:
            self.look()
        except ForebayError as error:
            self.close()
            self.away_since = time.time() if self.away_since is None else self.away_since
            self.why = str(error)

    def close(self) -> None:
        """Close the connection to the broker."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def _look_at_consumers(self, client: ControlClient) -> None:
        """Find slow consumers: they hold messages at two fetches in a row while more wait in their queue."""
        suspects = [row for row in self.rows if row["ready"] and row["consumers"]]
        holding: list[tuple[tuple[object, ...], Row]] = []
        for row in sorted(suspects, key=lambda row: -row["ready"])[:SUSPECTS_MAX]:
            try:
                answer: Row = client.run("consumer.list", vhost=row["vhost"], queue=row["queue"], limit=CONSUMERS_MAX)
            except ForebayError as error:
                if getattr(error, "reason", None) is None:
                    raise
                continue  # the queue was deleted meanwhile
            for each in answer["items"]:
                if each["held"]:
                    key = (row["vhost"], row["queue"], each["connection"], each["channel"], each["consumer"])
                    holding.append((key, {**each, "vhost": row["vhost"], "ready": row["ready"], "acked": row["acked"]}))
        self.slow = sorted((row for key, row in holding if key in self._holding), key=lambda row: -row["held"])
        self._holding = {key for key, _ in holding}

    def press(self, key: str) -> bool:
        """Handle one key. Returns False if the key ends the command."""
        if self.finding:
            if key in ENTER or key == ESCAPE:
                self.finding = False
                self.find = "" if key == ESCAPE else self.find
            elif key in DELETE:
                self.find = self.find[:-1]
            elif key.isprintable():
                self.find += key
        elif key in ORDERS:
            self.order = key
        elif key == "c":
            self.consumers = not self.consumers
        elif key == "/":
            self.finding = True
            self.find = ""
        elif key == " ":
            self.held = not self.held
        elif key == ESCAPE:
            self.find = ""
        return self.finding or key not in {"q", "Q", "\x03", "\x04"}

    def chosen(self) -> list[Row]:
        """Return the rows of the queues that match the search, in the chosen order."""
        column, descending = ORDERS[self.order]
        found = [row for row in self.rows if self.find.lower() in row["queue"].lower()]
        if not descending:
            return sorted(found, key=lambda row: (row["queue"], row["vhost"]))
        return sorted(found, key=lambda row: (-(row[column] or 0), row["queue"]))

    def fields(self) -> dict[str, object]:
        """Return the screen's content as fields for JSON."""
        if self.away_since is not None:
            return {"away_since_ms": int(self.away_since * 1000), "error": self.why}
        found = {"broker": self.broker, "rates": self.rates, "queues": self.chosen(), "slow_consumers": self.slow}
        return {"time_us": self.broker["time_us"], **found}

    def headline(self) -> str:
        """Return the line about the broker, or since when it has been away."""
        if self.away_since is not None:
            since = datetime.fromtimestamp(self.away_since, UTC).strftime("%H:%M:%S UTC")
            return f"AWAY since {since}, {period_said(time.time() - self.away_since)}: {cell(self.why)}"
        broker = self.broker
        cluster = f"  cluster {cell(broker['cluster']['line'])}" if broker.get("cluster") else ""
        alarm = f"ALARM: {' and '.join(broker['alarms'])}  " if broker["alarms"] else ""
        free = octets_said(broker["disk_free_octets"])
        return (
            f"{alarm}up {period_said(broker['uptime_s'])}  {broker['connections']:,} connections  "
            f"memory {octets_said(broker['memory_octets'])}  disk {free} free{cluster}"
        )

    def sums(self) -> str:
        """Return the line of totals over all queues."""
        broker = self.broker
        slow = f"{len(self.slow)} slow consumers  " if self.slow else ""
        readers = f"{broker['slow_readers']} slow readers  " if broker["slow_readers"] else ""
        flow = "  ".join(f"{name} {rate_said(rate)}" for name, rate in self.rates.items())
        return f"{slow}{readers}{broker['queues']:,} queues  {broker['ready']:,} ready  {flow}"

    def table(self, rows: Sequence[Row], columns: int) -> list[str]:
        """Return the lines of the chosen table, its head first."""
        from forebay.cli.table import NUMBER, TEXT, table_lines

        names = CONSUMER_COLUMNS if self.consumers else COLUMNS
        sorts = "" if self.consumers else ORDERS[self.order][0].removesuffix("_ms")
        heads = [f"{name}*" if name == sorts else name for name in names]
        shown = [
            {**row, **{name: rate_said(row[name]) for name in ("in", "out", "acked") if name in row}} for row in rows
        ]
        for each, row in zip(shown, rows, strict=True):
            each["oldest"] = oldest_said(row) if "oldest_ms" in row else ""
        kinds = [TEXT if name in WORDS else NUMBER for name in names]
        return table_lines(heads, [[cell(each[name]) for name in names] for each in shown], kinds, columns)[0]

    def view(self, lines: int, columns: int) -> RenderableType:
        """Return the whole screen, `lines` high, grey while the broker is away."""
        from rich.console import Group
        from rich.text import Text

        away = self.away_since is not None
        found = self.slow if self.consumers else self.chosen()
        room = max(lines - HEAD_LINES, 1)
        dim = "dim" if away else ""
        head, *rows = self.table(found[:room], columns)
        parts = [
            (self.headline(), "bold red" if away else "bold"),
            (self.sums(), dim),
            ("", ""),
            (f"{head:<{columns}}", f"reverse {dim}" if dim else "bold reverse"),
            *((row, dim) for row in rows),
            (self.foot(len(found), room), "dim"),
        ]
        return Group(*(Text(text, style=style, no_wrap=True, overflow="ellipsis") for text, style in parts))

    def foot(self, found: int, room: int) -> str:
        """Return the last line: the search being typed, or the keys."""
        if self.finding:
            return f"find: {self.find}_"
        what = "slow consumers" if self.consumers else "queues"
        more = f"{found - room} more {what}  " if found > room else "" if found else f"no {what}  "
        return f"{more}{'paused  ' if self.held else ''}{'/' + self.find + '  ' if self.find else ''}{HELP}"


def queue_stats(run: Callable[..., dict[str, object]]) -> Iterator[Row]:
    """Yield the statistics of all queues. Each page of them is of one moment."""
    place: object = None
    while True:
        answer: Row = run("queue.stats", **{"from": place, "limit": 1000})
        for item in answer["items"]:
            yield {**item, "time_us": answer["time_us"]}
        place = answer.get("next")
        if place is None:
            return
