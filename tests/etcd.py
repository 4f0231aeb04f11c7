"""Real etcds for tests: one process, or three that make a cluster."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import threading
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from tests.broker_process import free_port
from tests.waiting import stand_still, until

PROGRAM = shutil.which("etcd") or "etcd"
CONTROL = shutil.which("etcdctl") or "etcdctl"


class EtcdMember:
    """One process of etcd, on ports and a folder that stay its own over a restart.

    tls      files of a certificate, its key and an authority that clients' certificates come from
    wrapper  a command that is given etcd's to run
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        ports: tuple[int, int],
        tls: Sequence[Path] = (),
        host: str = "127.0.0.1",
        wrapper: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.name = name
        self.scheme = "https" if tls else "http"
        self.endpoint = f"{host}:{ports[0]}"
        self.url = f"{self.scheme}://{self.endpoint}"
        self.peer = f"http://{host}:{ports[1]}"
        self.wrapper = list(wrapper)
        self.tls = list(tls)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, members: Sequence[EtcdMember]) -> None:
        """Run it; it answers once most of the members do."""
        command = [
            *(
                *self.wrapper,
                PROGRAM,
                "--name",
                self.name,
                "--data-dir",
                str(self.folder / self.name),
                "--log-level",
                "warn",
            ),
            *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
            *("--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer),
            *("--initial-cluster", ",".join(f"{each.name}={each.peer}" for each in members)),
            *("--heartbeat-interval", "50", "--election-timeout", "500", "--unsafe-no-fsync"),
        ]
        if self.tls:
            certificate, key, authority = map(str, self.tls)
            command += ["--cert-file", certificate, "--key-file", key, "--client-cert-auth"]
            command += ["--trusted-ca-file", authority]
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def hang(self) -> None:
        """Answer nobody, until it goes on."""
        assert self.process is not None
        stand_still(self.process.pid)

    def go_on(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def control(self, *words: str) -> str:
        """What `etcdctl` prints for a command."""
        command = [CONTROL, "--endpoints", self.url, *words]
        if self.tls:
            certificate, key, authority = map(str, self.tls)
            command += ["--cert", certificate, "--key", key, "--cacert", authority]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def values(self, prefix: str, seconds: float = 60.0) -> list[str]:
        """What is under keys that begin so; by HTTP, since tests ask often and a process for each answer is slow."""
        key, end = prefix.encode(), prefix[:-1].encode() + bytes([ord(prefix[-1]) + 1])
        asked = json.dumps({"key": b64encode(key).decode(), "range_end": b64encode(end).decode()}).encode()
        with urllib.request.urlopen(f"{self.url}/v3/kv/range", asked, timeout=seconds) as answer:
            return [b64decode(each["value"]).decode() for each in json.load(answer).get("kvs", [])]

    def is_healthy(self) -> bool:
        """True if it answers by `etcdctl`."""
        try:
            self.control("endpoint", "health")
        except AssertionError:
            return False
        return True

    def is_leader(self) -> bool:
        status = json.loads(self.control("endpoint", "status", "-w", "json"))[0]["Status"]
        return bool(status["leader"] == status["header"]["member_id"])


class Etcd:
    """An etcd of some members."""

    def __init__(self, folder: Path, count: int, tls: Sequence[Path] = ()) -> None:
        ports = [free_port() for _ in range(2 * count)]
        self.folder = folder
        self.members = [
            EtcdMember(folder, f"e{place}", (ports[2 * place], ports[2 * place + 1]), tls) for place in range(count)
        ]

    @property
    def endpoints(self) -> list[str]:
        return [each.endpoint for each in self.members]

    @property
    def urls(self) -> list[str]:
        return [each.url for each in self.members]

    def start(self) -> None:
        for each in self.members:
            each.start(self.members)
        self.wait()

    def restart(self, member: EtcdMember) -> None:
        """Run a member that was killed, and wait until it answers."""
        member.start(self.members)
        self.wait()

    def wait(self) -> None:
        """Wait until every member that runs answers."""
        for each in self.members:
            if each.process is not None:
                until(partial(self.answers, each), partial(self.log, each))

    def answers(self, member: EtcdMember) -> bool:
        assert member.process is not None
        assert member.process.poll() is None, self.log(member)
        if member.tls:
            return member.is_healthy()
        try:
            with urllib.request.urlopen(f"{member.url}/health", timeout=5) as answer:
                return b"true" in answer.read()
        except OSError:
            return False

    def first_value(self, prefix: str, seconds: float = 5.0) -> str | None:
        """The value of the first key that begins so, by the first member that answers; empty where there is no key.

        None where no member answers within so many seconds.
        """
        for member in self.members:
            if member.process is not None:
                with suppress(OSError):
                    return next(iter(member.values(prefix, seconds)), "")
        return None

    def log(self, member: EtcdMember) -> str:
        return (self.folder / f"{member.name}.log").read_text(errors="replace")[-2000:]

    def leader(self) -> EtcdMember:
        return next(each for each in self.members if each.process is not None and each.is_leader())

    def stop(self) -> None:
        for each in self.members:
            if each.process is not None:
                each.go_on()
            each.kill()


@contextmanager
def etcd_in(folder: Path, count: int, tls: Sequence[Path] = ()) -> Iterator[Etcd]:
    """An etcd that runs for as long as a test does."""
    made = Etcd(folder, count, tls)
    made.start()
    try:
        yield made
    finally:
        made.stop()


class Cutter:
    """A way to etcd that a test can cut: it passes octets on, or holds them back in one direction or both.

    forward   what the client sends reaches the server
    backward  what the server sends reaches the client
    held      set once octets have been held back since the last change
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self.target = (host, int(port))
        self.forward = self.backward = True
        self.held = threading.Event()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self.server.getsockname()[1]}"
        self.ended = False
        self.changed = threading.Condition()
        self.sockets: list[socket.socket] = []
        self.threads = [threading.Thread(target=self.accept, daemon=True)]
        self.threads[0].start()

    def accept(self) -> None:
        while True:
            try:
                taken, _ = self.server.accept()
                made = socket.create_connection(self.target)
            except OSError:
                return
            self.sockets += [taken, made]
            for source, sink, name in ((taken, made, "forward"), (made, taken, "backward")):
                self.threads.append(threading.Thread(target=self.copy, args=(source, sink, name), daemon=True))
                self.threads[-1].start()

    def copy(self, source: socket.socket, sink: socket.socket, name: str) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                with self.changed:
                    if not getattr(self, name):
                        self.held.set()
                    self.changed.wait_for(lambda: self.ended or getattr(self, name))
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def set(self, forward: bool, backward: bool) -> None:
        """Let octets pass, or hold them back."""
        with self.changed:
            self.held.clear()
            self.forward, self.backward = forward, backward
            self.changed.notify_all()

    def drop(self) -> None:
        """End the connections there are; new ones are taken."""
        sockets, self.sockets = self.sockets, []
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def close(self) -> None:
        with self.changed:
            self.ended = True
            self.changed.notify_all()
        # Only a shutdown wakes a thread that waits in `accept` or `recv`.
        for each in [self.server, *self.sockets]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self.threads:
            thread.join()
