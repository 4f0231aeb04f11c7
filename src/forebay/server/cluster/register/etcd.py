"""Questions to etcd, by the JSON form of its version 3 API over HTTP: docs/adr/0030 says why so.

An answer that never came may have been acted on. So every failure says whether the request may have got there.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any, Final

import orjson

from forebay.core.errors import ForebayError
from forebay.server.cluster.keep_alive import KEEP_ALIVE
from forebay.server.system.http_client import httpx

Json = dict[str, Any]

# Codes of gRPC.
CANCELLED: Final = 1
UNSURE_ERROR: Final = 2
INVALID_ARGUMENT: Final = 3
DEADLINE_EXCEEDED: Final = 4
FAILED_PRECONDITION: Final = 9
INTERNAL: Final = 13
UNAVAILABLE: Final = 14
UNAUTHENTICATED: Final = 16
# After these a change may have been made: "etcdserver: request timed out", "leader changed".
UNSURE: Final = (CANCELLED, UNSURE_ERROR, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE)
NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
TOKEN_FAULTS: Final = ("invalid auth token", "user name is empty", "revision of auth store is old")
HTTP_OK: Final = 200
LINE_OCTETS_MAX: Final = 4 << 20
# A member that vanished without a word is noticed within some ten seconds by a watch that is silent.
SOCKET_OPTIONS: Final = [*KEEP_ALIVE, (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]


class EtcdAway(ForebayError):
    """No member of etcd has answered.

    sent  the request may have got there
    """

    def __init__(self, text: str, sent: bool) -> None:
        super().__init__(text)
        self.sent = sent


class EtcdRefusal(ForebayError):
    """The answer of etcd is no, and nothing was changed; the code is gRPC's."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def octets(text: bytes) -> str:
    """Encode octets for JSON, in base64."""
    return b64encode(text).decode()


def after(prefix: bytes) -> bytes:
    """Return the end of the range of keys that begin with `prefix`: the first key after them."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))


class EtcdClient:
    """The members of one etcd.

    addresses  URLs of the members; one is asked until it fails
    context    for TLS
    timeout_s  how long a member may take for an answer
    user       and password; empty for none

    lost              reason why etcd's answers are no longer trusted; empty while they are
    """

    def __init__(
        self, addresses: Sequence[str], context: ssl.SSLContext | None, timeout_s: float, user: str, password: str
    ) -> None:
        assert addresses
        self.addresses = list(addresses)
        self.timeout_s = timeout_s
        self.user = user
        self.password = password
        self.http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(
                verify=context if context is not None else False, trust_env=False, socket_options=SOCKET_OPTIONS
            ),
            trust_env=False,
            timeout=timeout_s,
        )
        self.at = 0
        self.token = ""
        self.cluster = ""
        self.revision = 0
        self.lost = ""

    async def close(self) -> None:
        """Close the connections."""
        await self.http.aclose()

    async def ask(self, path: str, question: Mapping[str, object], *, again: bool) -> Json:
        """Return the answer to a question, from the first member that gives one.

        again   it changes nothing, so that it may be asked again whatever became of it
        raises  EtcdAway, EtcdRefusal
        """
        failure: EtcdAway | None = None
        sent = False
        for _ in self.addresses:
            address = self.addresses[self.at]
            try:
                return await self.ask_as_user(address, path, question)
            except EtcdAway as error:
                self.leave(address)
                failure = error
                sent = sent or error.sent
                if sent and not again:
                    break
        assert failure is not None
        raise EtcdAway(str(failure), sent)

    async def changed(self, path: str, question: Mapping[str, object], *, again: bool) -> Json:
        """Ask as `ask` does, about keys: the answers' revisions never go back, and each change has a new one.

        raises  EtcdAway where it is not so: etcd has been put back to an older state, or is another one
        """
        if self.lost:
            raise EtcdAway(self.lost, sent=False)
        floor = self.revision
        answer = await self.ask(path, question, again=again)
        header = answer.get("header", {})
        cluster, revision = str(header.get("cluster_id", "")), int(header.get("revision", 0))
        if self.cluster and cluster != self.cluster:
            self.leave(self.addresses[self.at])
            raise EtcdAway(f"etcd is another one: its cluster id is {cluster}, and was {self.cluster}", sent=True)
        if revision < floor + bool(answer.get("succeeded")):
            # Its revisions will grow, and mean something else than before: nothing it says can be held against them.
            self.lost = (
                f"etcd is older than it was: its revision is {revision}, and was {floor}; a restart takes it as it is"
            )
            raise EtcdAway(self.lost, sent=True)
        self.cluster = cluster
        self.revision = max(self.revision, revision)
        return answer

    async def watch(self, first: bytes, end: bytes, revision: int) -> AsyncGenerator[Json]:
        """Yield the messages of a watch of a range of keys from a revision on. The watch ends with an error.

        raises  EtcdAway, EtcdRefusal
        """
        address = self.addresses[self.at]
        create = {
            "key": octets(first),
            "range_end": octets(end),
            "start_revision": str(revision),
            "progress_notify": True,
        }
        # A member that has lost the others would be silent for ever.
        headers = {**await self.headers(address), "Grpc-Metadata-hasleader": "true"}
        body = orjson.dumps({"create_request": create})
        limit = httpx.Timeout(self.timeout_s, read=None)
        try:
            async with (
                asyncio.timeout(self.timeout_s) as begun,
                self.http.stream("POST", f"{address}/v3/watch", content=body, headers=headers, timeout=limit) as answer,
            ):
                if answer.status_code != HTTP_OK:
                    fault(address, answer.status_code, await answer.aread())
                async for line in lines(answer):
                    begun.reschedule(None)
                    message = parsed(address, HTTP_OK, line)
                    if "error" in message:
                        fault(address, HTTP_OK, line)
                    yield message["result"]
        except (httpx.TransportError, TimeoutError) as error:
            self.leave(address)
            raise away(address, error) from None
        except EtcdAway:
            self.leave(address)
            raise
        self.leave(address)
        raise EtcdAway(f"{address} has ended the watch", sent=True)

    # ---- one member

    async def ask_as_user(self, address: str, path: str, question: Mapping[str, object]) -> Json:
        """Return the answer of one member to a question of this user; log in again once if the login has expired."""
        headers = await self.headers(address)
        try:
            return await self.ask_at(address, path, question, headers)
        except EtcdRefusal as error:
            if not self.user or not is_token_fault(error):
                raise
        self.token = ""
        return await self.ask_at(address, path, question, await self.headers(address))

    async def headers(self, address: str) -> dict[str, str]:
        """Return the HTTP headers that make a question the user's; log in first if there is no token."""
        if not self.user:
            return {}
        if not self.token:
            try:
                login = {"name": self.user, "password": self.password}
                answer = await self.ask_at(address, "auth/authenticate", login, {})
                self.token = str(answer.get("token", ""))
            except EtcdAway as error:
                raise EtcdAway(str(error), sent=False) from None  # the question itself has not left
            except EtcdRefusal as error:
                if error.code != FAILED_PRECONDITION:  # "authentication is not enabled"
                    raise
                return {}
        return {"Authorization": self.token}

    async def ask_at(self, address: str, path: str, question: Mapping[str, object], headers: dict[str, str]) -> Json:
        try:
            answer = await self.http.post(f"{address}/v3/{path}", content=orjson.dumps(question), headers=headers)
        except httpx.TransportError as error:
            raise away(address, error) from None
        if answer.status_code != HTTP_OK:
            fault(address, answer.status_code, answer.content)
        return parsed(address, HTTP_OK, answer.content)

    def leave(self, address: str) -> None:
        """Switch to the next member, unless that has happened already."""
        if self.addresses[self.at] == address:
            self.at = (self.at + 1) % len(self.addresses)


def away(address: str, error: Exception) -> EtcdAway:
    """Build the error for a request that failed at one member."""
    words = str(error) or {httpx.ReadTimeout: "no answer in time", TimeoutError: "no answer in time"}.get(
        type(error), type(error).__name__
    )
    return EtcdAway(f"{address}: {words}", sent=not isinstance(error, NOT_SENT))


def parsed(address: str, status: int, body: bytes) -> Json:
    """Parse the JSON object of an answer. Raises EtcdAway if it is none: something other than etcd answers there."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        raise EtcdAway(f"{address}: HTTP status {status}, {body[:80]!r} is no answer of etcd", sent=True)
    return answer


def fault(address: str, status: int, body: bytes) -> None:
    """Raise what an answer that is an error means: EtcdAway, EtcdRefusal."""
    answer = parsed(address, status, body)
    inner = answer.get("error")
    if isinstance(inner, dict):  # of a stream
        answer = inner
    text = str(answer.get("message") or answer.get("error") or f"HTTP status {status}")
    code = int(answer.get("code") or answer.get("grpc_code") or 0)
    if code in UNSURE or not code:
        raise EtcdAway(f"{address}: {text}", sent=True)
    raise EtcdRefusal(f"{address}: {text}", code)


def is_token_fault(error: EtcdRefusal) -> bool:
    """Return whether the same question may succeed after another login."""
    return error.code in {UNAUTHENTICATED, INVALID_ARGUMENT} and any(each in str(error) for each in TOKEN_FAULTS)


async def lines(answer: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the lines of an answer as they come. Raises EtcdAway if a line has no end."""
    rest = b""
    async for more in answer.aiter_bytes():
        *whole, rest = (rest + more).split(b"\n")
        for line in whole:
            if line:
                yield line
        if len(rest) > LINE_OCTETS_MAX:
            raise EtcdAway(f"a message of a watch is longer than {LINE_OCTETS_MAX} octets", sent=True)
