"""kill -9 while messages are moved over HTTP, and while they are published by retries: each is in one place, once."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable

import httpx

from tests.broker_process import BrokerProcess
from tests.waiting import pause

ROUNDS = 3
MESSAGES = 400
BATCH = 7
STEPS_MAX = 5  # between two kills; there are many more
PAUSE_S = 0.004
WAIT_S_MAX = 60


def connect(broker: BrokerProcess) -> httpx.Client:
    return httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=WAIT_S_MAX)


def run(broker: BrokerProcess, operation: str, **arguments: object) -> dict[str, object]:
    with connect(broker) as http:
        answer = http.post(f"/api/forebay/operations/{operation}", json=arguments)
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


def bodies(broker: BrokerProcess, queue: str) -> list[str]:
    found: list[str] = []
    place = 0
    with connect(broker) as http:
        while True:
            parameters = {"from": place, "limit": 1000}
            page = http.get(f"/api/forebay/queues/%2F/{queue}/messages", params=parameters).json()
            found += [each["body"] for each in page["items"]]
            if "next" not in page:
                return found
            place = page["next"]


class Work:
    """Something that goes on in a thread until it is done, whatever becomes of the broker meanwhile."""

    def __init__(self, broker: BrokerProcess, step: Callable[[httpx.Client], bool]) -> None:
        self.broker = broker
        self.step = step
        self.steps = 0
        self.thread = threading.Thread(target=self.go_on, daemon=True)
        self.thread.start()

    def go_on(self) -> None:
        while True:
            try:
                with connect(self.broker) as http:
                    while not self.step(http):
                        self.steps += 1
                    return
            except httpx.TransportError:
                pause(0.02)  # the broker is down, or has just died with the answer

    def is_done(self) -> bool:
        return not self.thread.is_alive()


def kill_under(broker: BrokerProcess, work: Work) -> int:
    """Kill the broker at random moments until the work is done; how often."""
    kills = 0
    deadline = time.monotonic() + WAIT_S_MAX
    due = random.randint(1, STEPS_MAX)
    while not work.is_done():
        assert time.monotonic() < deadline
        pause(random.uniform(0, PAUSE_S))
        if kills < ROUNDS and work.steps >= due and not work.is_done():
            broker.kill9()
            broker.start()
            kills += 1
            due = work.steps + random.randint(1, STEPS_MAX)
    return kills


def test_what_is_moved_is_in_one_place(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(http="127.0.0.1:0")
    run(broker, "queue.declare", queue="from")
    run(broker, "queue.declare", queue="to", type="quorum")
    with connect(broker) as http:
        items = [{"topic": "$queue/from", "payload": {"n": number}} for number in range(MESSAGES)]
        assert http.post("/publish", json=items).json()["published"] == MESSAGES

    def step(http: httpx.Client) -> bool:
        # A little at a time: the broker dies between portions and within them.
        done = http.post("/api/forebay/queues/%2F/from/move", json={"to": "to", "where": "/n % 3 != 0", "limit": 9})
        assert done.status_code == 200, done.text
        return bool(done.json()["done"] == 0)

    kills = kill_under(broker, Work(broker, step))
    broker.kill9()
    broker.start()
    assert kills > 0
    left, moved = [[json.loads(each)["n"] for each in bodies(broker, queue)] for queue in ("from", "to")]
    assert Counter(left + moved) == Counter(range(MESSAGES))
    assert left == [number for number in range(MESSAGES) if number % 3 == 0]
    assert moved == [number for number in range(MESSAGES) if number % 3]


def test_what_is_published_again_is_there_once_and_in_order(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(http="127.0.0.1:0")
    run(broker, "queue.declare", queue="q")
    confirmed = 0

    def step(http: httpx.Client) -> bool:
        nonlocal confirmed
        numbers = range(confirmed, min(confirmed + BATCH, MESSAGES))
        items = [{"topic": "$queue/q", "payload": str(each), "idempotency_key": f"k{each}"} for each in numbers]
        answer = http.post("/publish", json=items)
        assert answer.status_code == 200 and answer.json()["failed"] == 0, answer.text
        confirmed = numbers.stop
        return confirmed == MESSAGES

    kills = kill_under(broker, Work(broker, step))
    broker.kill9()
    broker.start()
    assert kills > 0
    assert bodies(broker, "q") == [str(number) for number in range(MESSAGES)]
