"""The register, simulated: compare-and-set, sights of it that come late or never, and who is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from forebay.core.ports import LOST, UNKNOWN, WON
from forebay.replica.outcome import Change
from forebay.replica.register import RegisterValue, View, decode_register, encode_register

if TYPE_CHECKING:
    from tests.simulation.group.process import Process

AWAY_US = 500_000  # after which whoever asks in vain is told so


@dataclass(eq=False)
class Said:
    """Something that a process is to hear of the register at a time: a sight, and the outcome of its change."""

    at_us: int
    process: Process
    view: View | None = None
    change: Change | None = None
    outcome: str = ""


class SimRegister:
    """One for all nodes.

    value     as octets: whoever sees it has a copy
    cut       the nodes that do not reach it; `away`: nobody does
    delay_us  until what is asked for is answered
    vague     so many of the next changes are made, or not, and their outcome is never told
    said      what is on its way to processes
    watchers  those that see every change
    """

    def __init__(self) -> None:
        self.value = b""
        self.revision = 0
        self.cut: set[str] = set()
        self.away = False
        self.delay_us = 0
        self.vague = 0
        self.said: list[Said] = []
        self.watchers: list[Process] = []

    @property
    def record(self) -> RegisterValue:
        return decode_register(self.value)

    def reaches(self, name: str) -> bool:
        return not self.away and name not in self.cut

    def read(self, process: Process, now_us: int) -> None:
        if self.reaches(process.name) and self.revision:
            self.said.append(Said(now_us + self.delay_us, process, self.view()))

    def view(self) -> View:
        return View(self.revision, self.record)

    def ask(self, process: Process, change: Change, now_us: int, is_made: bool) -> None:
        """Somebody wants it changed. `is_made`: where the outcome is not told, it is done all the same."""
        if not self.reaches(process.name):
            self.said.append(Said(now_us + AWAY_US, process, None, change, UNKNOWN))
            return
        is_vague = self.vague > 0
        self.vague -= is_vague
        won = change.revision == self.revision
        if won and (is_made or not is_vague):
            self.set(change.value, now_us)
        outcome = UNKNOWN if is_vague else WON if won else LOST
        view = None if is_vague else self.view()
        self.said.append(Said(now_us + (AWAY_US if is_vague else self.delay_us), process, view, change, outcome))

    def set(self, value: RegisterValue, now_us: int) -> None:
        self.value = encode_register(value)
        self.revision += 1
        for process in self.watchers:
            if self.reaches(process.name):
                self.said.append(Said(now_us + self.delay_us, process, self.view()))

    def due(self, now_us: int) -> Said | None:
        """What somebody hears now, in the order in which it was said."""
        for said in self.said:
            if said.at_us <= now_us and (said.outcome == UNKNOWN or self.reaches(said.process.name)):
                self.said.remove(said)
                return said
        return None

    def forget(self, process: Process) -> None:
        """A process is gone."""
        self.said = [each for each in self.said if each.process is not process]
        if process in self.watchers:
            self.watchers.remove(process)

    def heal(self) -> None:
        self.cut.clear()
        self.away = False
        self.delay_us = 0
        self.vague = 0
