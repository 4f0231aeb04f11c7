"""Readers of a stream beside publishers: what bulk reads at followers, or at the leader, cost those who publish.

Each reader is a process that reads the stream again and again, as tasks of Spark do, until it is told to stop. Run as a
program it is such a reader: readers.py SERVERS QUEUE COUNT followers|leader
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from forebay.spark.access import Access
from forebay.spark.reading.logs import RemoteLogs

FOLLOWERS, LEADER = "followers", "leader"
MIB = 1 << 20


@contextmanager
def readers(ports: list[int], queue: str, count: int, number: int, where: str) -> Iterator[list[int]]:
    """So many readers of the first records of a stream; filled at the end with the MiB that each has had."""
    servers = ",".join(f"127.0.0.1:{port}" for port in ports)
    command = [sys.executable, __file__, servers, queue, str(count), where]
    made = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(number)]
    read: list[int] = []
    try:
        for each in made:
            assert each.stdout is not None and each.stdout.readline(), "a reader has ended"
        yield read
    finally:
        for each in made:
            out, _ = each.communicate("")
            read += [int(line) for line in out.split()]


def main() -> None:
    servers, queue, count, where = sys.argv[1:]
    watcher = subprocess.Popen(["cat"], stdin=sys.stdin, stdout=subprocess.DEVNULL)  # ends as the input does
    octets = 0
    told = False
    while watcher.poll() is None:
        logs = RemoteLogs(Access(servers, from_followers=where == FOLLOWERS))
        for view in logs.blocks(queue, 0, int(count), True):
            octets += view.octets
            if not told:
                print("reads", flush=True)
                told = True
            if watcher.poll() is not None:
                break
        logs.close()
    print(octets // MIB, flush=True)


if __name__ == "__main__":
    main()
