"""What views cost of the disk: octets of the data folder, after all that came was settled in each of them.

python bench/view_disk.py [MESSAGES]
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.held_load import BATCH, Held
from tests.conformance.amqp091 import raw as amqp091

MESSAGES = 20_000
VIEWS = 10
FIRST = 100_000_000  # all numbers have as many digits
BODY = b'{"n": %d, "text": "' + b"x" * 170 + b'"}'
PLANS = (
    ("no view", 0, ""),
    ("10 views", VIEWS, ""),
    ("10 views that take every second message", VIEWS, "/n % 2 = 0"),
    ("10 views that take one of a hundred", VIEWS, "/n % 100 = 0"),
)


def octets_of(folder: Path, views: int, filter: str, count: int) -> int:
    """Publish to a stream, settle all in each of its views, and return the octets of the folder."""
    rig = Held(folder)
    with ExitStack() as lines:
        source = lines.enter_context(amqp091.connect(rig))
        source.declare("q", arguments={"x-queue-type": "stream"})
        for number in range(views):
            asked: dict[str, object] = {"x-filter": filter} if filter else {}
            source.declare(f"v{number}", arguments={"x-source": "q", **asked})
        source.confirm()
        sinks = [lines.enter_context(amqp091.connect(rig)) for _ in range(views)]
        for number, sink in enumerate(sinks):
            sink.consume(f"v{number}")
        takes = {"": 1, "/n % 2 = 0": 2, "/n % 100 = 0": 100}[filter]
        for first in range(0, count, BATCH):
            numbers = range(first, first + BATCH)
            source.send(b"".join(amqp091.publish(1, "q", BODY % (FIRST + number)) for number in numbers))
            source.confirmed(first + BATCH)
            taken = sum(number % takes == 0 for number in numbers)
            for sink in sinks:
                tags = [sink.delivery()[0] for _ in range(taken)]
                if tags:
                    sink.settle(amqp091.ACK, tags[-1], 1)
        rig.settle()
    # The last file of the log is as long as it may become, with zeros behind what was written.
    return sum(len(path.read_bytes().rstrip(b"\0")) for path in folder.rglob("*") if path.is_file())


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES
    alone = 0
    for name, views, filter in PLANS:
        with tempfile.TemporaryDirectory() as folder:
            octets = octets_of(Path(folder), views, filter, count)
        alone = alone or octets
        print(f"{name:42} {octets:12,} {octets / alone:.3f}")


if __name__ == "__main__":
    main()
