"""A place where Celery works: workers as processes, and an application that sends tasks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import celery

from forebay.client.control import ControlClient
from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.waiting import until

ROOT = Path(__file__).parent.parent.parent
WAIT_S = 60


class Site:
    """A broker, a folder for traces, workers as processes, and in this process an application that sends tasks.

    settings  of Celery, for all of them
    """

    def __init__(self, broker: BrokerProcess, folder: Path, **settings: object) -> None:
        self.broker = broker
        self.folder = folder
        self.settings = {
            "broker_url": f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}//",
            "result_backend": "rpc://",
            "worker_prefetch_multiplier": 1,
            **settings,
        }
        self.workers: list[subprocess.Popen[bytes]] = []
        self.app = celery.Celery("sender")
        self.app.conf.update(broker_transport_options={"confirm_publish": True}, **self.settings)

    def task(self, name: str, *arguments: object) -> Any:
        """A task of celery_app.py with its arguments."""
        return self.app.signature(f"tests.interop.celery_app.{name}", args=arguments)

    def start_worker(self, *options: str) -> subprocess.Popen[bytes]:
        """A worker that has begun to consume; one task at a time unless its options say otherwise."""
        name = f"worker-{len(self.workers)}"
        log = self.folder / f"{name}.log"
        command = [sys.executable, "-m", "celery", "-A", "tests.interop.celery_app", "worker", "-n", f"{name}@%h"]
        command += ["--loglevel", "INFO", *(options or ("--pool", "solo"))]
        environment = {
            **os.environ,
            "FOREBAY_CELERY_FOLDER": str(self.folder),
            "FOREBAY_CELERY_SETTINGS": json.dumps(self.settings),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        with log.open("wb") as file:
            process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=self.folder, start_new_session=True
            )
        self.workers.append(process)
        until(lambda: b" ready." in log.read_bytes(), f"{name} is ready")
        return process

    def lines(self, name: str, count: int) -> list[str]:
        """What tasks left in a file, once there are so many lines."""
        path = self.folder / name

        def read() -> list[str]:
            return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

        until(lambda: len(read()) >= count, f"{count} lines in {name}")
        return read()

    def ready(self, queue: str = "celery") -> int:
        """Messages that wait in a queue."""
        channel = open_channel(self.broker)
        found = int(channel.queue_declare(queue, passive=True).method.message_count)
        channel.connection.close()
        return found

    def is_settled(self) -> bool:
        """Whether all tasks are done and acknowledged, which workers do some time after the tasks."""
        with ControlClient.connect(f"127.0.0.1:{self.broker.amqp_port}", "guest", "guest") as client:
            (queue,) = (each for each in client.items("queue.list", vhost="/") if each["queue"] == "celery")
        return queue["ready"] == queue["unacked"] == 0

    def close(self) -> None:
        """End what runs, with the children that a killed worker left."""
        self.app.close()
        for process in self.workers:
            print((self.folder / f"worker-{self.workers.index(process)}.log").read_text(errors="replace")[-5_000:])
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
