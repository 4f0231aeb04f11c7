"""Rounds of inputs against one held broker; the same seed does the same again, and what fails is made short."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from tests.fuzz import amqp, blocks, mqtt
from tests.fuzz.held import Held
from tests.fuzz.mutator import DRAINED, LATER, LOST, OCTETS, STUFFED, Input, Mutator, Step
from tests.fuzz.recorder import Recording, record_all
from tests.fuzz.upkeep import census, clear, of_connections

INPUTS_A_ROUND: Final = 40
LONG_S: Final = 1.0
LEFT: Final = "there is more than at the start: "
LATE: Final = f"Wrong: {LEFT}"
ATTEMPTS: Final = 400
# What the broker is told to be; a round has one of them.
OPTIONS: Final[tuple[dict[str, object], ...]] = (
    {},
    {
        "events": ["*"],
        "mqtt_max_inflight": 2,
        "mqtt_max_mqueue_len": 3,
        "mqtt_mqueue_overflow": "spill",
        "mqtt_sys_interval_s": 1,
        "default_queue_type": "quorum",
        "amqp_delivery_headers": "forebay",
    },
    {
        "client_messages_per_s": 20,
        "user_octets_per_s": 20_000,
        "address_connections_per_min": 600,
        "mqtt_mqueue_overflow": "drop",
        "mqtt_mqueue_priorities": {"a/b": 3},
        "mqtt_max_mqueue_len": 5,
        "message_octets_max": 1000,
        "queue_octets_max": 3000,
        "mqtt_session_octets_max": 3000,
        "address_queues": "memory",
        "deduplication_keys_max": 2,
        "transactions_max": 1,
    },
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Inputs after which something is wrong, and what."""

    seed: int
    options: Mapping[str, object]
    inputs: list[Input]
    text: str

    def __str__(self) -> str:
        lines = [f"seed {self.seed}, options {self.options}: {self.text}", "after these inputs:"]
        for number, each in enumerate(self.inputs):
            lines.append(f"  input {number}: connections to {', '.join(each.listeners)}")
            for step in each.steps:
                more = f" {step.seconds} s" if step.kind == LATER else f" {step.octets!r}" if step.octets else ""
                lines.append(f"    {step.line} {step.kind}{more}" + ("" if step.settles else ", and at once"))
        return "\n".join(lines)


@dataclass(slots=True)
class Result:
    """The sums of what rounds have done."""

    octets: int = 0
    inputs: int = 0
    reads: int = 0
    rounds: int = 0
    answered: int = 0
    turns: int = 0
    commits: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


class Wrong(Exception):
    """The broker goes on, and is not as it was."""


MakeRig = Callable[[Mapping[str, object]], Held]


def make_rig(options: Mapping[str, object]) -> Held:
    return Held(**options)


@dataclass(frozen=True, slots=True)
class Fuzzer:
    """The parts that all rounds have in common.

    make       the broker; planted bugs have others
    attempts   at a shorter failure
    baselines  what a broker of these options holds when everything was deleted, by the number of the options
    """

    mutator: Mutator
    make: MakeRig = make_rig
    attempts: int = ATTEMPTS
    baselines: dict[int, Counter[str]] = field(default_factory=dict)

    def round(self, seed: int, result: Result, octets_max: int = 1 << 62) -> Failure | None:
        """The inputs of a seed; what is wrong after them, in as few as can be found, or None."""
        chance = Random(seed)
        options = OPTIONS[seed % len(OPTIONS)]
        inputs: list[Input] = []
        octets = 0
        while len(inputs) < INPUTS_A_ROUND and octets < octets_max:
            inputs.append(self.mutator.make(chance))
            octets += inputs[-1].octets()
        text = self.attempt(options, inputs, result)
        result.rounds += 1
        if not text:
            return None
        return self.shortest(Failure(seed, options, inputs, text))

    def attempt(
        self, options: Mapping[str, object], inputs: Sequence[Input], result: Result, to_the_end: bool = True
    ) -> str:
        """Give a new broker these inputs, and perhaps delete everything; what is wrong then."""
        rig = self.make(options)
        try:
            for each in inputs:
                feed(rig, each, result)
            if to_the_end:
                clear(rig)
                check(rig)
                self.compare(rig, options)
        except Exception as error:  # noqa: BLE001  whatever the broker raises is what is looked for
            return said(error)
        finally:
            result.turns += rig.turns
            result.commits += rig.commits
            rig.close()
        return ""

    def compare(self, rig: Held, options: Mapping[str, object]) -> None:
        """Everything was deleted: there may be no more of anything than at the beginning."""
        found = census(rig)
        number = OPTIONS.index(dict(options))
        if number not in self.baselines:
            fresh = make_rig(options)
            for each in self.mutator.corpus:
                feed(fresh, plain(each), Result())
            clear(fresh)
            self.baselines[number] = census(fresh)
            fresh.close()
        more = {name: count - self.baselines[number][name] for name, count in found.items()}
        more = {name: count for name, count in more.items() if count > ALLOWED.get(name, 0)}
        if more:
            raise Wrong(
                "there is more than at the start: " + ", ".join(f"{more[name]} {name}" for name in sorted(more))
            )

    # ---- fewer inputs

    def shortest(self, failure: Failure) -> Failure:
        """Leave out inputs, steps and octets as long as the same is wrong."""
        left = Attempts(self, failure)
        left.fewer_inputs()
        left.fewer_steps()
        left.longer_reads()
        left.fewer_octets()
        return left.failure


class Attempts:
    """The way from a failure to a shorter one."""

    def __init__(self, fuzzer: Fuzzer, failure: Failure) -> None:
        self.fuzzer = fuzzer
        self.failure = failure
        self.left = fuzzer.attempts
        self.is_late = failure.text.startswith(LATE)  # so that it needs everything to be deleted

    def holds(self, inputs: list[Input]) -> bool:
        """Whether the same is wrong after these, which then stand for the failure."""
        if self.left == 0:
            return False
        self.left -= 1
        failure = self.failure
        text = self.fuzzer.attempt(failure.options, inputs, Result(), self.is_late)
        if not text or kind_of(text) != kind_of(failure.text):
            return False
        self.failure = Failure(failure.seed, failure.options, inputs, text)
        return True

    def fewer_inputs(self) -> None:
        size = len(self.failure.inputs) // 2
        while size:
            at = 0
            while at < len(self.failure.inputs):
                inputs = self.failure.inputs
                if not self.holds(inputs[:at] + inputs[at + size :]):
                    at += size
                if not self.left:
                    return
            size //= 2

    def fewer_steps(self) -> None:
        for number in range(len(self.failure.inputs)):
            size = len(self.failure.inputs[number].steps) // 2
            while size:
                at = 0
                while at < len(self.failure.inputs[number].steps) and self.left:
                    steps = self.failure.inputs[number].steps
                    if not self.holds(self.with_steps(number, (*steps[:at], *steps[at + size :]))):
                        at += size
                size //= 2

    def longer_reads(self) -> None:
        """Put reads of one connection that follow each other together."""
        for number in range(len(self.failure.inputs)):
            at = 0
            while at + 1 < len(self.failure.inputs[number].steps) and self.left:
                one, next = self.failure.inputs[number].steps[at : at + 2]
                both = Step(one.line, OCTETS, one.octets + next.octets, 0, next.settles)
                steps = self.failure.inputs[number].steps
                alike = one.line == next.line and one.kind == next.kind == OCTETS
                if not alike or not self.holds(self.with_steps(number, (*steps[:at], both, *steps[at + 2 :]))):
                    at += 1

    def fewer_octets(self) -> None:
        for number in range(len(self.failure.inputs)):
            for place in range(len(self.failure.inputs[number].steps)):
                size = len(self.failure.inputs[number].steps[place].octets) // 2
                while size and self.left:
                    steps = list(self.failure.inputs[number].steps)
                    step = steps[place]
                    steps[place] = Step(step.line, step.kind, step.octets[:-size], step.seconds, step.settles)
                    if not step.octets[:-size] or not self.holds(self.with_steps(number, tuple(steps))):
                        size //= 2

    def with_steps(self, number: int, steps: tuple[Step, ...]) -> list[Input]:
        inputs = list(self.failure.inputs)
        inputs[number] = Input(inputs[number].listeners, steps)
        return inputs


def feed(rig: Held, given: Input, result: Result) -> None:
    """Give the broker one input, and see that it has forgotten those who sent it."""
    lines = [rig.connect(listener) for listener in given.listeners]
    result.inputs += 1
    for step in given.steps:
        line = lines[step.line]
        result.kinds[step.kind] += 1
        if step.kind == OCTETS:
            result.octets += len(step.octets)
            result.reads += 1
            line.put(step.octets)
        elif step.kind == LOST:
            line.close()
        elif step.kind == STUFFED:
            line.stuff()
        elif step.kind == DRAINED:
            line.drain()
        else:
            later(rig, step.seconds)
        if step.settles:
            rig.settle()
        line.forget()
    for line in lines:
        line.close()
    rig.settle()
    result.answered += sum(line.answered for line in lines)
    check(rig)


def plain(recording: Recording) -> Input:
    """The recording as it is, frame by frame."""
    steps = [Step(each.line, OCTETS if each.octets else LOST, each.octets) for each in recording.frames]
    return Input(tuple(recording.listeners), tuple(steps))


def later(rig: Held, seconds: float) -> None:
    """Time goes by; of a long time only the last second has tenths."""
    if seconds > LONG_S:
        rig.clock.us += round((seconds - LONG_S) * 1_000_000)
    rig.wait(min(seconds, LONG_S))


def check(rig: Held) -> None:
    """The broker goes on, and no connection is left."""
    rig.check()
    left = of_connections(rig.broker)
    if left:
        raise Wrong("connections have left behind: " + ", ".join(f"{count} {what}" for what, count in left.items()))


def said(error: Exception) -> str:
    """An error and where it was raised."""
    if isinstance(error, Wrong):
        return f"Wrong: {error}"
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} ({Path(place.filename).name}:{place.lineno}): {error}"


def kind_of(text: str) -> str:
    """The mark by which two failures are the same."""
    if text.startswith("Wrong"):
        return "".join(each for each in text if not each.isdigit())
    return text.partition(":")[0] + text.partition(":")[2].partition(")")[0]


TALKS: Final = {**amqp.TALKS, **mqtt.TALKS, **blocks.TALKS}
LONG_TALKS: Final = {"amqp long": amqp.long_body, "mqtt long": mqtt.long_body}
# More of what comes and goes by itself: files of the log, pages of a ledger, who has failed to log in, up to a limit.
ALLOWED: Final[dict[str, int]] = {
    "entries": 40,
    "Failures": 10,
    "Block": 3,
    "BlockFile": 4,
    "FileHead": 2,
    "Entry": 4,
    "Segment": 4,
    "StoredSegment": 4,
    "WalFile": 2,
    "Page": 3,
}


def make_mutator() -> Mutator:
    """The source of inputs, from recordings with a broker as it is by default."""
    return Mutator(record_all(TALKS, {}), record_all(LONG_TALKS, {}))
