"""A process that has loaded all of forebay, and is forked for each broker and each command that a test starts.

Most of a start is the loading of modules: 0.7 s of CPU, where all the rest takes less than 0.1 s. What is forked begins
where `python -m forebay` is about to call `main`, with the same command line, environment, folder and standard streams.
It is a process like any other: it is killed, stopped and waited for, and shares nothing with those before.

    broker = FORKS.start(["serve", "--data", ...], environment, output=log)
    broker.wait(timeout=60)
    done = FORKS.run(["queue", "list"], environment)

A request is one packet: a JSON object, and with it four open files, the standard streams and the end of a pipe, into
which the server writes the process id, and once the process has ended how. The server ends, and kills what is left,
when nobody holds the other end of its socket any more.
"""

from __future__ import annotations

import atexit
import gc
import importlib.util
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, NoReturn

import forebay.cli
from tests.waiting import readable

ROOT = Path(__file__).resolve().parent.parent
COMMAND_S_MAX = 900  # guards against a hang; one that starts Spark takes a minute on a busy machine
REQUEST_OCTETS_MAX = 1 << 20
START_S_MAX = 60
END_S_MAX = 10
LOADED = (
    "forebay.server.run",
    "forebay.server.serve",
    "forebay.server.cluster.peers",
    "forebay.admin.service",
    "forebay.admin.http.answering",  # a broker loads these three when it is first asked over HTTP
    "forebay.admin.api",
    "forebay.admin.metrics.scraping",
    "forebay.admin.webhooks.service",
    "typer.rich_utils",
    "rich.traceback",
)


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
            if not readable(self._told, max(deadline - time.monotonic(), 0)):
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

    def start(
        self,
        arguments: Sequence[str],
        environment: dict[str, str],
        output: BinaryIO,
        errors: BinaryIO | None = None,
        given: BinaryIO | None = None,
    ) -> Forked:
        """Start `forebay` with these arguments in the folder of the caller.

        errors  None: they go where the rest goes
        given   on its standard input; None: nothing
        """
        request = {"arguments": list(arguments), "environment": environment, "folder": os.getcwd()}
        told, end = os.pipe()
        with open(os.devnull, "rb") as nothing:
            streams = [(given or nothing).fileno(), output.fileno(), (errors or output).fileno()]
            try:
                with self._lock:
                    connection = self._socket = self._socket or self._start()
                    socket.send_fds(connection, [json.dumps(request).encode()], [*streams, end])
            finally:
                os.close(end)
        return Forked(told)

    def run(
        self, arguments: Sequence[str], environment: dict[str, str], given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        with TemporaryFile() as stdin, TemporaryFile() as output, TemporaryFile() as errors:
            stdin.write(given.encode())
            stdin.seek(0)
            code = self.start(arguments, environment, output, errors, stdin).wait(COMMAND_S_MAX)
            output.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess(arguments, code, output.read().decode(), errors.read().decode())

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], cwd=ROOT)
        theirs.close()
        atexit.register(stop, process, ours)
        return ours


FORKS = ForkServer()


def stop(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    """End the server."""
    connection.close()
    process.wait(END_S_MAX)


# ---- in the server


def load() -> None:
    """Import what any broker may use, whatever its options are."""
    for name in LOADED:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(forebay.cli.__path__, "forebay.cli."):
        importlib.import_module(module.name)
    if importlib.util.find_spec("opentelemetry"):
        importlib.import_module("forebay.admin.telemetry.export")
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
        octets, files, _, _ = socket.recv_fds(connection, REQUEST_OCTETS_MAX, 4)
        if not octets:
            break
        *streams, told = files
        sign, alive = os.pipe()  # the broker holds its end as long as it lives
        pid = os.fork()
        if not pid:
            connection.detach()  # it is closed with all the others
            become(json.loads(octets), streams, alive)
            return
        for number in (alive, *streams):
            os.close(number)
        tell(told, pid)
        children[sign] = pid, told
    for pid, _ in children.values():
        os.kill(pid, signal.SIGKILL)
    os._exit(0)


def tell(told: int, number: int) -> None:
    """One line; whoever wants to know it may be gone."""
    with suppress(BrokenPipeError):
        os.write(told, b"%d\n" % number)


def become(request: dict[str, object], streams: Sequence[int], alive: int) -> None:
    """Give this process what it would have if it had been started by itself."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number > 2 and number != alive:
            os.closerange(number, number + 1)  # which is silent about that of the list itself
    sys.stdin = TextIOWrapper(BufferedReader(FileIO(0, closefd=False)), encoding="utf-8")
    sys.stdout = TextIOWrapper(BufferedWriter(FileIO(1, "w", closefd=False)), encoding="utf-8")
    sys.stderr = TextIOWrapper(
        BufferedWriter(FileIO(2, "w", closefd=False)), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )
    environment, folder, arguments = request["environment"], request["folder"], request["arguments"]
    assert isinstance(environment, dict)
    assert isinstance(arguments, list)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(str(folder))
    sys.argv = ["forebay", *arguments]
    # A node of a cluster begins anew by these, and is the same process to whoever waits for its end.
    sys.orig_argv = [sys.executable, "-m", *sys.argv]
    os.set_inheritable(alive, True)


def run_to_end() -> NoReturn:
    """Do what `python -m forebay` does; what is loaded is left to the system, since freeing it would copy it first."""
    from forebay.cli.main import main

    try:
        main()
        code: object = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:  # noqa: BLE001  the interpreter prints it, too
        traceback.print_exc()
        code = 1
    assert isinstance(code, int), code
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the interpreter's end does
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    load()
    serve(socket.socket(fileno=int(sys.argv[1])))
    run_to_end()
