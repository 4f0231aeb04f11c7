"""A broker as users run it: `python -m forebay serve` in a process of its own."""

from __future__ import annotations

import fcntl
import functools
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from tests.changing_files import octets_of_changing_files
from tests.fork_server import FORKS, Forked
from tests.waiting import look_again, pause, until, until_past

# Each listener and where it listens unless a test says otherwise: any free port, or nowhere.
LISTENERS = {
    "amqp": "127.0.0.1:0",
    "mqtt": "127.0.0.1:0",
    "mqtt_websocket": "127.0.0.1:0",
    "amqps": "",
    "mqtts": "",
    "mqtt_websocket_tls": "",
    "http": "",
    "https": "",
    "prometheus": "",
}
FLAGS = ("amqp", "mqtt")  # the others have no flag of `forebay serve`
PORTS = range(16_000, 31_750)  # below those that the system gives to outgoing connections
# Of a process that runs tests: so many that a port has another broker only when clients of the one before, such as
# those by which Spark renews what it holds, have long given up.
PORTS_EACH = 1_575
CLAIMS = Path(tempfile.gettempdir()) / "forebay-test-ports"
LOG_QUIET_S, LOG_LOOKS = 0.03, 10  # for so long nothing may come, at so many looks at the most
START_S_MAX = 60  # guards against a hang; a start takes well under a second
STOP_S_MAX = 60
DIAL_WAIT_S = 20  # guards against a hang


@functools.cache
def claimed_ports() -> Iterator[int]:
    """This process's own ports, over and over: no other run of tests on the machine takes them while it lives."""
    CLAIMS.mkdir(exist_ok=True)
    for first in range(PORTS.start, PORTS.stop, PORTS_EACH):
        claim = os.open(CLAIMS / str(first), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(claim)
            continue
        return itertools.cycle(range(first, first + PORTS_EACH))  # the claim ends with the process
    raise AssertionError(f"no ports are left: {CLAIMS} has claims of too many processes")


def free_port() -> int:
    """A port that nobody listens on; this process gives it again only after all its others."""
    while True:
        port = next(claimed_ports())
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def hang_up(ports: set[int]) -> None:
    """End all connections of this process to these ports."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # which one is closed by now, is no socket, or is not connected
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as found:
                if found.family == socket.AF_INET and found.getpeername()[1] in ports:
                    found.shutdown(socket.SHUT_RDWR)


class Dialled(Protocol):
    """A broker that clients by octets can reach, whatever it runs in."""

    def dial(self, listener: str) -> socket.socket:
        """A new connection; its client's end."""
        ...


class AnyBroker(Dialled, Protocol):
    """The same, and its time: of tests that hold whatever the broker runs in."""

    def now(self) -> float:
        """Seconds since 1970, by its clock."""
        ...

    def wait_out(self, seconds: float) -> None:
        """Let so much time pass."""
        ...

    def pass_moment(self) -> None:
        """Let a moment pass between two looks."""
        ...


class BrokerProcess:
    """One data folder and the broker that runs on it, which may be ended and started again.

    options  any option of the broker; they are handed over in a configuration file
    wrapper  a command that is given the broker's to run; one without it is forked from what is loaded already
    """

    def __init__(self, folder: Path, **options: object) -> None:
        self.folder = folder
        self.data = Path(str(options.pop("data", folder / "data")))
        self.listeners = {name: str(options.pop(name, address)) for name, address in LISTENERS.items()}
        wrapper = options.pop("wrapper", [])
        assert isinstance(wrapper, list)
        self.wrapper: list[str] = wrapper
        self.options = options
        self.ready: dict[str, object] = {}
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self._log = folder / "broker.log"
        self._log_start = 0
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def pid(self) -> int:
        """Process id of the running broker."""
        assert self._process is not None, "the broker does not run"
        return self._process.pid

    @property
    def amqp_port(self) -> int:
        """Where it takes AMQP."""
        return self.port("amqp")

    @property
    def mqtt_port(self) -> int:
        """Where it takes MQTT."""
        return self.port("mqtt")

    @property
    def http_url(self) -> str:
        """Where its web page is; only of a broker with `http="127.0.0.1:0"`."""
        return f"http://127.0.0.1:{self.port('http')}"

    def port(self, listener: str) -> int:
        """Where the listener of this name takes clients."""
        return int(str(self.ready[listener]).rpartition(":")[2])

    def dial(self, listener: str) -> socket.socket:
        """A new connection to a listener; reading from it fails where nothing comes."""
        return socket.create_connection(("127.0.0.1", self.port(listener)), timeout=DIAL_WAIT_S)

    def start(self) -> None:
        """Start, and wait for the ready line."""
        self.launch()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait for the ready line of a broker that was launched."""
        line = until(self._ready_line, self.log_text, meanwhile=partial(pause, 0.002), seconds=START_S_MAX)
        self.ready = json.loads(line)
        # A restart takes the same ports, so that clients find it again.
        self.listeners = {name: str(self.ready.get(name, "")) for name in self.listeners}

    def launch(self) -> None:
        """Start without waiting: for starts that must fail."""
        assert self._process is None, "the broker runs already"
        self._log_start = self._log.stat().st_size if self._log.exists() else 0
        # Not port 0: while a broker is down, the system would give its port to somebody's outgoing connection.
        self.listeners = {
            name: f"127.0.0.1:{free_port()}" if address == "127.0.0.1:0" else address
            for name, address in self.listeners.items()
        }
        self.write_options()
        arguments = ["serve", "--config", str(self.config), "--data", str(self.data)]
        for name in FLAGS:
            arguments += [f"--{name}", self.listeners[name]]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # half of a start from the sources would be to compile them
        with self._log.open("ab") as log:
            if not self.wrapper:
                self._process = FORKS.start(arguments, environment, log)
                return
            command = [*self.wrapper, sys.executable, "-m", "forebay", *arguments]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
            )

    @property
    def config(self) -> Path:
        """Its configuration file."""
        return self.folder / "options.yaml"

    def write_options(self) -> None:
        """Write the configuration file; a broker that runs reads it again only when it is told to."""
        others = {name: address for name, address in self.listeners.items() if name not in FLAGS}
        self.config.write_text(json.dumps({**self.options, **others}), encoding="utf-8")  # JSON is YAML

    def wait(self) -> int:
        """Wait until it ends by itself; its exit code."""
        code = self._running().wait(STOP_S_MAX)
        self._process = None
        return code

    def hang_up(self) -> None:
        """End what connections this process has to it: it would wait for them to leave, also for those forgotten."""
        hang_up({self.port(name) for name in LISTENERS if self.ready.get(name)})

    def stop(self) -> None:
        """SIGTERM, and the exit code must be 0."""
        self._running().send_signal(signal.SIGTERM)
        code = self.wait()
        assert code == 0, f"the broker ended with {code}:\n{self.log_text()}"

    def kill9(self) -> None:
        """SIGKILL: no chance to write anything more."""
        self.send_kill()
        self.wait()

    def send_kill(self) -> None:
        """SIGKILL, without waiting for the end: for several that die at once."""
        self._running().kill()

    def restart(self) -> None:
        """Start again on the same data and ports; stops it first, without clients of this process, where it runs."""
        if self._process is not None:
            self.hang_up()
            self.stop()
        self.start()

    def log_text(self) -> str:
        """All that the broker printed, over all starts, with what a thread of it is just about to write."""
        found = self._log_so_far()
        for _ in range(LOG_LOOKS if self._process is not None else 0):
            pause(LOG_QUIET_S)
            before, found = found, self._log_so_far()
            if found == before:
                break
        return found

    def _log_so_far(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    def wait_out(self, seconds: float) -> None:
        """Let so much time pass, also by its own clock, which each turn sets."""
        until_past(time.time() + seconds)
        with socket.create_connection(("127.0.0.1", self.amqp_port), START_S_MAX) as probe:
            probe.sendall(b"AMQP\0\0\0\0")
            assert probe.recv(8)

    def now(self) -> float:
        """Seconds since 1970, by its clock."""
        return time.time()

    def pass_moment(self) -> None:
        """Let a moment pass between two looks."""
        look_again()

    def wait_for_a_client(self) -> None:
        """While it does not run: wait until somebody looks for it where it takes AMQP."""
        with socket.create_server(("127.0.0.1", self.amqp_port)) as listener:
            listener.settimeout(START_S_MAX)
            listener.accept()[0].close()

    def octets_in_segments(self) -> int:
        """How much of its log it has written anew, by queue."""
        return octets_of_changing_files(self.data / "queues", "*.seg")

    def finish(self) -> None:
        """End of a test: stop what runs, and no start may have printed a traceback."""
        if self._process is not None and self._process.poll() is not None:
            code = self.wait()
            raise AssertionError(f"the broker ended by itself with {code}:\n{self.log_text()}")
        if self._process is not None:
            self.hang_up()
            self.stop()
        assert "Traceback (most recent call last)" not in self.log_text(), self.log_text()

    def abandon(self) -> None:
        """Make sure that no process is left, whatever the test did."""
        if self._process is not None:
            self._process.kill()
            self.wait()

    def _running(self) -> subprocess.Popen[bytes] | Forked:
        assert self._process is not None, "the broker does not run"
        return self._process

    def _ready_line(self) -> str:
        code = self._running().poll()
        text = self._log.read_bytes()[self._log_start :].decode("utf-8", "replace")
        for line in text.splitlines(keepends=True):
            if line.startswith("ready ") and line.endswith("\n"):
                return line.removeprefix("ready ")
        assert code is None, f"the broker ended with {code} before it was ready:\n{self.log_text()}"
        return ""


@contextmanager
def running(folder: Path, **options: object) -> Iterator[BrokerProcess]:
    """A started broker, which is stopped and looked over at the end."""
    broker = BrokerProcess(folder, **options)
    try:
        broker.start()
        yield broker
        broker.finish()
    finally:
        broker.abandon()


class Ended(Protocol):
    """A broker that is looked over at its end."""

    def start(self) -> None: ...

    def log_text(self) -> str: ...

    def finish(self) -> None: ...

    def abandon(self) -> None: ...


AnyEnded = TypeVar("AnyEnded", bound=Ended)


@contextmanager
def brokers_in(folder: Path, make: Callable[..., AnyEnded]) -> Iterator[Callable[..., AnyEnded]]:
    """A function that starts a broker with the options given; all are stopped and looked over at the end."""
    brokers: list[AnyEnded] = []

    def start(**options: object) -> AnyEnded:
        broker = make(folder / f"broker-{len(brokers)}", **options)
        brokers.append(broker)
        broker.start()
        return broker

    yield start
    try:
        for broker in brokers:
            print(broker.log_text()[-10_000:])  # pytest shows it where the test failed
            broker.finish()
    finally:
        for broker in brokers:
            broker.abandon()
