"""The brokers whose behaviour is compared, behind one face: forebay and a real RabbitMQ 4."""

from __future__ import annotations

import abc
import base64
import http
import http.client
import itertools
import json
import os
import subprocess
import urllib.parse
from pathlib import Path
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from forebay.client.control import ControlClient
from forebay.core.errors import RequestError
from tests.broker_process import BrokerProcess
from tests.waiting import pause

SCRIPT_VARIABLE = "FOREBAY_PEERS"  # path of the script that starts a RabbitMQ; unset: only forebay is observed
NUMBERS = itertools.count()
SOCKET_S = 60
SETTLED_S = 0.3  # RabbitMQ tells its queues of a policy after it answered, and nobody when they know


class Declined(Exception):
    """What the administrator asked for was declined."""


class Peer(abc.ABC):
    """A broker in which one test has a virtual host for itself.

    vhost  its name, which stands in the texts of errors
    port   where it takes AMQP, and `http_port` where its HTTP API is
    """

    name = ""

    def __init__(self, vhost: str, port: int, http_port: int) -> None:
        self.vhost = vhost
        self.port = port
        self.http_port = http_port
        self._connections: list[pika.BlockingConnection] = []

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """One call of the HTTP API: the status of the answer, and what it says.

        path  behind `/api/`, encoded
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=SOCKET_S)
        login = base64.b64encode(b"guest:guest").decode()
        headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
        connection.request(method, f"/api/{path}", None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if text else None

    def connect(self, user: str = "guest", password: str = "guest", **parameters: object) -> pika.BlockingConnection:
        """A connection that is closed at the test's end at the latest; `parameters` as pika names them."""
        settings: dict[str, Any] = {
            "virtual_host": self.vhost,
            "credentials": pika.PlainCredentials(user, password),
            "socket_timeout": SOCKET_S,
            "blocked_connection_timeout": SOCKET_S,
            **parameters,
        }
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, **settings))
        self._connections.append(connection)
        return connection

    def channel(self, confirms: bool = True, **parameters: object) -> BlockingChannel:
        """A channel of a connection of its own."""
        channel = self.connect(**parameters).channel()  # type: ignore[arg-type]
        if confirms:
            channel.confirm_delivery()
        return channel

    @abc.abstractmethod
    def add_vhost(self, name: str, default_queue_type: str = "classic") -> str:
        """Another virtual host, in which `guest` may do everything; its name."""

    @abc.abstractmethod
    def delete_vhost(self, name: str) -> None:
        """Take a virtual host away."""

    @abc.abstractmethod
    def add_user(self, name: str, password: str) -> str:
        """A user without permissions; the name, which may be longer than the one asked for."""

    @abc.abstractmethod
    def set_permissions(self, user: str, configure: str, write: str, read: str) -> None:
        """Regular expressions on names in this virtual host."""

    @abc.abstractmethod
    def set_topic_permissions(self, user: str, exchange: str, write: str, read: str) -> None:
        """Regular expressions on routing keys of an exchange."""

    @abc.abstractmethod
    def set_policy(
        self,
        name: str,
        pattern: str,
        definition: dict[str, object],
        apply_to: str = "all",
        priority: int = 0,
        operator: bool = False,
    ) -> None:
        """Make a policy, which holds when this returns; `Declined` where it makes no sense."""

    @abc.abstractmethod
    def delete_policy(self, name: str) -> None:
        """Take a policy away."""

    def is_policy_refused(self, name: str, pattern: str, definition: dict[str, object]) -> bool:
        """Whether there can be no such policy."""
        try:
            self.set_policy(name, pattern, definition)
        except Declined:
            return True
        return False

    @abc.abstractmethod
    def retry_dead_letters_soon(self) -> None:
        """What is dead-lettered at least once and found no queue is tried again within seconds; say it first."""

    @abc.abstractmethod
    def look_at_timeouts_often(self) -> None:
        """Whether a consumer holds something too long is looked at each second; say it before the consumer opens."""

    @abc.abstractmethod
    def need_consistent_hash(self) -> None:
        """Exchanges of the type x-consistent-hash are there afterwards."""

    def close(self) -> None:
        """Close what the test left open."""
        for connection in self._connections:
            if connection.is_open:
                connection.close()


class Forebay(Peer):
    """A broker of this repository, in which each test has a virtual host."""

    name = "forebay"

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(f"peer-{next(NUMBERS)}", broker.amqp_port, broker.port("http"))
        self._client = ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest")
        self._client.run("vhost.add", vhost=self.vhost)

    def add_vhost(self, name: str, default_queue_type: str = "classic") -> str:
        made = f"{self.vhost}-{name}"
        self._client.run("vhost.add", vhost=made, default_queue_type=default_queue_type)
        return made

    def delete_vhost(self, name: str) -> None:
        self._client.run("vhost.delete", vhost=name)

    def add_user(self, name: str, password: str) -> str:
        made = f"{self.vhost}-{name}"
        self._client.run("user.add", user=made, password=password)
        return made

    def set_permissions(self, user: str, configure: str, write: str, read: str) -> None:
        given = {"configure": configure, "write": write, "read": read}
        self._client.run("permission.set", vhost=self.vhost, user=user, **given)

    def set_topic_permissions(self, user: str, exchange: str, write: str, read: str) -> None:
        given = {"exchange": exchange, "write": write, "read": read}
        self._client.run("topic_permission.set", vhost=self.vhost, user=user, **given)

    def set_policy(
        self,
        name: str,
        pattern: str,
        definition: dict[str, object],
        apply_to: str = "all",
        priority: int = 0,
        operator: bool = False,
    ) -> None:
        operation = "operator_policy.set" if operator else "policy.set"
        given = {"pattern": pattern, "definition": definition, "priority": priority}
        applied = "queues" if operator and apply_to == "all" else apply_to
        try:
            self._client.run(operation, vhost=self.vhost, policy=name, apply_to=applied, **given)
        except RequestError as refused:
            raise Declined(str(refused)) from refused

    def delete_policy(self, name: str) -> None:
        self._client.run("policy.clear", vhost=self.vhost, policy=name)

    def retry_dead_letters_soon(self) -> None:
        pass  # each second

    def look_at_timeouts_often(self) -> None:
        pass  # each second

    def need_consistent_hash(self) -> None:
        pass  # always there

    def close(self) -> None:
        super().close()
        self._client.close()


class RabbitMQ(Peer):
    """A RabbitMQ that the script `peers.sh` starts, and that goes on running: tests share it, each in its own vhost."""

    name = "rabbitmq"

    def __init__(self) -> None:
        script = os.environ[SCRIPT_VARIABLE]
        told = subprocess.run([script, "rmq4", "start"], capture_output=True, text=True, check=True).stdout.split()
        ports = dict(itertools.pairwise(told))
        self._script = script
        super().__init__(f"peers-{os.getpid()}-{next(NUMBERS)}", int(ports["amqp"]), int(ports["mgmt"]))
        self._vhosts = [self.vhost]
        self._users: list[str] = []
        self.request("PUT", "vhosts", self.vhost)

    def request(self, method: str, *path: str, body: object = None) -> Any:
        """One call of its HTTP API."""
        url = "/".join(urllib.parse.quote(part, safe="") for part in path)
        status, said = self.ask(method, url, body)
        if status == http.HTTPStatus.BAD_REQUEST:
            raise Declined(str(said))
        assert status < 300, f"{method} {url}: {status} {said}"
        return said

    def add_vhost(self, name: str, default_queue_type: str = "classic") -> str:
        made = f"{self.vhost}-{name}"
        self.request("PUT", "vhosts", made, body={"default_queue_type": default_queue_type})
        self._vhosts.append(made)
        return made

    def delete_vhost(self, name: str) -> None:
        self.request("DELETE", "vhosts", name)
        self._vhosts.remove(name)

    def add_user(self, name: str, password: str) -> str:
        made = f"{self.vhost}-{name}"
        self.request("PUT", "users", made, body={"password": password, "tags": ""})
        self._users.append(made)
        return made

    def set_permissions(self, user: str, configure: str, write: str, read: str) -> None:
        body = {"configure": configure, "write": write, "read": read}
        self.request("PUT", "permissions", self.vhost, user, body=body)

    def set_topic_permissions(self, user: str, exchange: str, write: str, read: str) -> None:
        body = {"exchange": exchange, "write": write, "read": read}
        self.request("PUT", "topic-permissions", self.vhost, user, body=body)

    def set_policy(
        self,
        name: str,
        pattern: str,
        definition: dict[str, object],
        apply_to: str = "all",
        priority: int = 0,
        operator: bool = False,
    ) -> None:
        kind = "operator-policies" if operator else "policies"
        applied = "queues" if operator and apply_to == "all" else apply_to
        body = {"pattern": pattern, "definition": definition, "apply-to": applied, "priority": priority}
        self.request("PUT", kind, self.vhost, name, body=body)
        pause(SETTLED_S)

    def delete_policy(self, name: str) -> None:
        self.request("DELETE", "policies", self.vhost, name)
        pause(SETTLED_S)

    def control(self, *arguments: str) -> str:
        """What `rabbitmqctl` prints."""
        command = [self._script, "rmq4", "ctl", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def retry_dead_letters_soon(self) -> None:
        # Its own time is three minutes; those who move dead letters read it when they start.
        self.control("eval", "application:set_env(rabbit, dead_letter_worker_publisher_confirm_timeout, 1000).")

    def look_at_timeouts_often(self) -> None:
        self.control("eval", "application:set_env(rabbit, channel_tick_interval, 500).")

    def need_consistent_hash(self) -> None:
        enable = """
            {ok, File} = application:get_env(rabbit, enabled_plugins_file),
            {ok, [Have]} = file:consult(File),
            ok = file:write_file(File, io_lib:format("~p.~n", [[rabbitmq_consistent_hash_exchange | Have]])),
            rabbit_plugins:ensure(File)."""
        self.control("eval", enable)

    def close(self) -> None:
        super().close()
        for vhost in self._vhosts:
            self.request("DELETE", "vhosts", vhost)
        for user in self._users:
            self.request("DELETE", "users", user)


def is_rabbitmq_here() -> bool:
    """Whether a script that starts a RabbitMQ was named."""
    script = os.environ.get(SCRIPT_VARIABLE, "")
    assert not script or Path(script).is_file(), f"{SCRIPT_VARIABLE} names {script}, which is no file"
    return bool(script)
