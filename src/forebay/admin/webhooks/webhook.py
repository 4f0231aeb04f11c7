"""One webhook: a queue in memory, workers that send what is in it, and a breaker that lets them rest.

All of it runs in the broker's event loop, beside the turns, and only awaits. An event is sent at most `attempts_max`
times; what waited when the broker ended is lost. The stream `$events` is for who must miss nothing.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
from collections import deque
from fnmatch import fnmatchcase
from typing import Final

import orjson

from forebay import __version__
from forebay.core.option_groups import OLDEST, WebhookOptions
from forebay.core.units import MS_PER_S
from forebay.node.telemetry.events import Told, matching
from forebay.routing.topic_trie import matches, swap_key
from forebay.server.system.http_client import httpx

SIGNATURE: Final = "X-Forebay-Signature"
EVENT: Final = "X-Forebay-Event"
DELIVERY: Final = "X-Forebay-Delivery"  # the same for each attempt, so that receivers know what they have
PAYLOADS_OCTETS_MAX: Final = 64 << 20  # of messages that wait in one webhook; beyond it events are dropped, too
CLOSED: Final = "closed"
OPEN: Final = "open"
logger = logging.getLogger("forebay")


def make_client() -> httpx.AsyncClient:
    """The HTTP client of all webhooks; each request has its own time."""
    return httpx.AsyncClient(trust_env=False, timeout=None)


class PendingEvent:
    """An event that is to be sent."""

    def __init__(self, told: Told, with_payload: bool) -> None:
        self.type = told.type
        self.number = told.number
        self.value = told.as_object()
        self.payload = told.payload if with_payload else None

    def octets(self) -> int:
        return 0 if self.payload is None else len(self.payload)

    def body(self) -> bytes:
        """The octets that are sent: JSON."""
        if self.payload is None:
            return orjson.dumps(self.value)
        return orjson.dumps({**self.value, "payload": base64.b64encode(self.payload).decode()})


class Webhook:
    """One address that events are sent to.

    waiting     not taken up by a worker yet
    busy        events that workers have in hand
    idle        set while there are neither
    failures    attempts in a row that have failed
    open_until  on the loop's clock: the breaker lets nothing through before
    """

    def __init__(self, options: WebhookOptions, mark: str, client: httpx.AsyncClient) -> None:
        self.options = options
        self.name = options.name or without_password(options.url)
        self.types = matching(options.events)
        self.mark = mark
        self.client = client
        self.waiting: deque[PendingEvent] = deque()
        self.octets = 0
        self.busy = 0
        self.sent = self.failed = self.dropped = self.retried = 0
        self.failures = 0
        self.open_until = 0.0
        self.last_error = ""
        self.came = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()
        self.workers = [asyncio.create_task(self.work()) for _ in range(options.workers)]

    def wants(self, told: Told) -> bool:
        """True if the event is for this webhook."""
        options = self.options
        if told.type not in self.types or (options.vhosts and told.vhost not in options.vhosts):
            return False
        if options.queues:
            queue = told.fields.get("queue")
            if not isinstance(queue, str) or not any(fnmatchcase(queue, each) for each in options.queues):
                return False
        if options.topics:
            topic = topic_of(told)
            return topic is not None and any(matches(each.encode(), topic) for each in options.topics)
        return True

    def offer(self, told: Told) -> None:
        """Have the event sent, in its turn; where too many wait, one is dropped as the options say."""
        event = PendingEvent(told, self.options.include_payload)
        while self.waiting and self.is_full(event):
            self.dropped += 1
            if self.options.drop_policy != OLDEST:
                return
            self.octets -= self.waiting.popleft().octets()
        self.waiting.append(event)
        self.octets += event.octets()
        self.came.set()
        self.idle.clear()

    def is_full(self, event: PendingEvent) -> bool:
        return len(self.waiting) >= self.options.events_max or self.octets + event.octets() > PAYLOADS_OCTETS_MAX

    async def work(self) -> None:
        """Send events until the worker is cancelled."""
        while True:
            while not self.waiting:
                self.came.clear()
                await self.came.wait()
            rest_s = self.open_until - asyncio.get_running_loop().time()
            if rest_s > 0:
                await asyncio.sleep(rest_s)
                continue
            event = self.waiting.popleft()
            self.octets -= event.octets()
            self.busy += 1
            try:
                await self.send(event)
            finally:
                self.busy -= 1
            if not self.waiting and not self.busy:
                self.idle.set()

    async def send(self, event: PendingEvent) -> None:
        """Send one event, again where that fails, until it is taken or was tried often enough."""
        options = self.options
        body = event.body()
        headers = self.headers(event, body)
        wait_ms = options.retry_min_ms
        for attempt in range(options.attempts_max):
            if attempt:
                self.retried += 1
                await asyncio.sleep(wait_ms / MS_PER_S)
                wait_ms = min(2 * wait_ms, options.retry_max_ms)
            error = await self.attempt(body, headers)
            if not error:
                self.sent += 1
                self.failures = 0
                return
            self.note_failure(error)
        self.failed += 1

    def headers(self, event: PendingEvent, body: bytes) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"forebay/{__version__}",
            EVENT: event.type,
            DELIVERY: f"{self.mark}-{event.number}",
        }
        if self.options.secret:
            digest = hmac.new(self.options.secret.encode(), body, "sha256").hexdigest()
            headers[SIGNATURE] = f"sha256={digest}"
        return {**headers, **self.options.headers}

    async def attempt(self, body: bytes, headers: dict[str, str]) -> str:
        """Send once; what went wrong, or an empty text."""
        try:
            async with asyncio.timeout(self.options.timeout_ms / MS_PER_S):
                answer = await self.client.post(self.options.url, content=body, headers=headers)
        except TimeoutError:
            return f"no answer within {self.options.timeout_ms} ms"
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return f"{type(error).__name__}: {error}"
        return "" if answer.is_success else f"status {answer.status_code}"

    def note_failure(self, error: str) -> None:
        """Note that an attempt has failed; too many in a row open the breaker."""
        self.failures += 1
        self.last_error = error
        now = asyncio.get_running_loop().time()
        if self.failures >= self.options.breaker_failures and now >= self.open_until:
            self.open_until = now + self.options.breaker_reset_ms / MS_PER_S
            # After the rest one failure is enough.
            self.failures = self.options.breaker_failures - 1
            words = "webhook %s: %s; nothing is sent for %d ms"
            logger.warning(words, self.name, error, self.options.breaker_reset_ms)

    def state(self) -> str:
        """The state of the breaker: OPEN while nothing is sent."""
        return OPEN if asyncio.get_running_loop().time() < self.open_until else CLOSED

    def fields(self) -> dict[str, object]:
        return {
            "name": self.name,
            "url": without_password(self.options.url),
            "events": sorted(self.types),
            "waiting": len(self.waiting) + self.busy,
            "sent": self.sent,
            "failed": self.failed,
            "dropped": self.dropped,
            "retried": self.retried,
            "breaker": self.state(),
            "last_error": self.last_error,
        }

    def stop(self) -> None:
        """End the workers; what waits is lost."""
        for worker in self.workers:
            worker.cancel()


def topic_of(told: Told) -> bytes | None:
    """The MQTT topic that an event is about, a routing key in its form; None for other events."""
    topic = told.fields.get("topic")
    if isinstance(topic, str):
        return topic.encode()
    key = told.fields.get("routing_key")
    return swap_key(key.encode()) if isinstance(key, str) else None


def without_password(url: str) -> str:
    """An address as people may see it."""
    return str(httpx.URL(url).copy_with(username=None, password=None)) if "@" in url else url
