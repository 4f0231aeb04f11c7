"""A process that has loaded all that a broker needs, and is forked for each broker that a test starts.

Most of a broker's start is the loading of its modules: 0.7 s of CPU, where all the rest takes less than 0.1 s. A forked
broker begins where `python -m forebay` is about to call `main`, with the same command line, environment, folder and
output. It is a process like any other: it is killed, stopped and waited for, and shares nothing with those before.

    server = ForkServer()
    broker = server.run(["serve", "--data", ...], log)
    broker.wait(timeout=60)

A request is one packet: a JSON object, and with it two open files, the broker's output and the end of a pipe, into
which the server writes the process id, and once the broker has ended how. The server ends, and kills what is left, when
nobody holds the other end of its socket any more.
"""

from __future__ import annotations

import atexit
import gc
import importlib.util
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).resolve().parent.parent
REQUEST_OCTETS_MAX = 1 << 20
START_S_MAX = 60
END_S_MAX = 10
LOADED = ("forebay.cli.running", "forebay.server.run", "forebay.admin.service", "forebay.admin.webhooks")


class Forked:
    """One broker's process, with what the tests use of `subprocess.Popen`."""

    def __init__(self, told: int) -> None:
        self._told = os.fdopen(told, "rb", buffering=0)
        self._text = b""
        self.returncode: int | None = None
        assert self._line(START_S_MAX), "the fork server starts no process"
        self.pid = int(self._text.split(b"\n")[0])

    def poll(self) -> int | None:
        """How it ended; None as long as it runs."""
        return self._ended(0)

    def wait(self, timeout: float) -> int:
        """Wait until it ends; TimeoutExpired if it does not."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Nothing happens where it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float) -> int | None:
        if self.returncode is None and self._line(timeout, 2):
            self.returncode = int(self._text.split(b"\n")[1])
            self._told.close()
        return self.returncode

    def _line(self, timeout: float, lines: int = 1) -> bool:
        """Whether so many lines have come by then."""
        deadline = time.monotonic() + timeout
        while self._text.count(b"\n") < lines:
            if not select.select([self._told], [], [], max(deadline - time.monotonic(), 0))[0]:
                return False
            octets = self._told.read(100)
            assert octets, "the fork server has ended"
            self._text += octets
        return True


class ForkServer:
    """The server's process; it is started with the first broker."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def run(self, arguments: Sequence[str], log: BinaryIO, environment: dict[str, str]) -> Forked:
        """Start `forebay` with these arguments in the folder of the caller; what it prints goes to `log`."""
        request = {"arguments": list(arguments), "environment": environment, "folder": os.getcwd()}
        told, end = os.pipe()
        try:
            with self._lock:
                connection = self._socket = self._socket or self._start()
                socket.send_fds(connection, [json.dumps(request).encode()], [log.fileno(), end])
        finally:
            os.close(end)
        return Forked(told)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], cwd=ROOT)
        theirs.close()
        atexit.register(stop, process, ours)
        return ours


def stop(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    """End the server."""
    connection.close()
    process.wait(END_S_MAX)


# ---- in the server


def load() -> None:
    """Import what any broker may use, whatever its options are."""
    for name in LOADED:
        importlib.import_module(name)
    if importlib.util.find_spec("opentelemetry"):
        importlib.import_module("forebay.admin.telemetry")
    assert threading.active_count() == 1, "a process with threads cannot be forked"
    gc.collect()
    gc.freeze()  # so that the collector of no broker copies it


def serve(connection: socket.socket) -> None:
    """Fork for each request; returns only in the processes of brokers, as soon as they are ready to run."""
    children: dict[int, tuple[int, int]] = {}  # where the end of each shows, its process id, and where to tell
    asked = connection.fileno()
    while True:
        readable = select.select([asked, *children], [], [])[0]
        for sign in [each for each in readable if each != asked]:
            pid, told = children.pop(sign)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.close(sign)
            tell(told, code)
            os.close(told)
        if asked not in readable:
            continue
        octets, files, _, _ = socket.recv_fds(connection, REQUEST_OCTETS_MAX, 2)
        if not octets:
            break
        log, told = files
        sign, alive = os.pipe()  # the broker holds its end as long as it lives
        pid = os.fork()
        if not pid:
            connection.detach()  # it is closed with all the others
            become(json.loads(octets), log, alive)
            return
        os.close(alive)
        os.close(log)
        tell(told, pid)
        children[sign] = pid, told
    for pid, _ in children.values():
        os.kill(pid, signal.SIGKILL)
    os._exit(0)


def tell(told: int, number: int) -> None:
    """One line; whoever wants to know it may be gone."""
    with suppress(BrokenPipeError):
        os.write(told, b"%d\n" % number)


def become(request: dict[str, object], log: int, alive: int) -> None:
    """Give this process what it would have if it had been started by itself."""
    os.dup2(log, 1)
    os.dup2(log, 2)
    open_files = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    for number in open_files:
        if number > 2 and number != alive:
            os.closerange(number, number + 1)  # which is silent about that of the list itself
    environment, folder, arguments = request["environment"], request["folder"], request["arguments"]
    assert isinstance(environment, dict)
    assert isinstance(arguments, list)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(str(folder))
    sys.argv = ["forebay", *arguments]


if __name__ == "__main__":
    load()
    serve(socket.socket(fileno=int(sys.argv[1])))
    from forebay.cli.main import main

    main()
