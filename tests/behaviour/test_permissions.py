"""What users may do where, over real connections: RabbitMQ's checks, codes and words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker, ProbableAccessDeniedError

from tests.broker_process import BrokerProcess, running
from tests.waiting import until

ADA = {"user": "ada", "vhost": "/", "configure": "^c", "write": "^w", "read": "^r"}
Work = Callable[[BlockingChannel], object]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(
        tmp_path_factory.mktemp("permissions"),
        users={"guest": "guest", "ada": "a", "eve": "e", "dlx": "d", "mover": "m"},
        permissions=[
            ADA,
            {"user": "eve", "vhost": "other"},
            {"user": "dlx", "configure": "^c", "write": "^w", "read": "^[cr]"},
            {"user": "mover", "configure": "^c"},
        ],
        vhosts=[{"name": "other"}, {"name": "small", "queues_max": 1, "connections_max": 0}],
    ) as made:
        with open_connection(made) as connection:
            channel = connection.channel()
            for queue in ("c1", "r1", "w1"):
                channel.queue_declare(queue, durable=True)
            for exchange in ("c.topic", "r.topic", "w.topic"):
                channel.exchange_declare(exchange, "topic", durable=True)
        yield made


def open_connection(
    broker: BrokerProcess, user: str = "guest", password: str = "guest", vhost: str = "/"
) -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(user, password)
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port, vhost, credentials))


def publish(exchange: str, key: str) -> Work:
    def work(channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        channel.basic_publish(exchange, key, b"x")

    return work


QUEUE = "{} access to queue '{}' in vhost '/' refused for user '{}'"
EXCHANGE = "{} access to exchange '{}' in vhost '/' refused for user '{}'"
DEAD_LETTERS = {"x-dead-letter-exchange": "w.topic"}

REFUSED: list[tuple[str, Work, str]] = [
    ("declare", lambda c: c.queue_declare("zz"), QUEUE.format("configure", "zz", "ada")),
    ("declare again", lambda c: c.queue_declare("r1", durable=True), QUEUE.format("configure", "r1", "ada")),
    ("delete", lambda c: c.queue_delete("r1"), QUEUE.format("configure", "r1", "ada")),
    ("delete what is not there", lambda c: c.queue_delete("zz"), QUEUE.format("configure", "zz", "ada")),
    ("purge", lambda c: c.queue_purge("c1"), QUEUE.format("read", "c1", "ada")),
    ("consume", lambda c: c.basic_consume("c1", lambda *_: None), QUEUE.format("read", "c1", "ada")),
    ("get", lambda c: c.basic_get("c1"), QUEUE.format("read", "c1", "ada")),
    ("publish", publish("c.topic", "k"), EXCHANGE.format("write", "c.topic", "ada")),
    ("publish to a queue", publish("", "c1"), EXCHANGE.format("write", "amq.default", "ada")),
    ("publish to what is not there", publish("zz", "k"), EXCHANGE.format("write", "zz", "ada")),
    ("bind the queue", lambda c: c.queue_bind("c1", "r.topic", "k"), QUEUE.format("write", "c1", "ada")),
    ("bind to", lambda c: c.queue_bind("w1", "c.topic", "k"), EXCHANGE.format("read", "c.topic", "ada")),
    ("unbind", lambda c: c.queue_unbind("c1", "r.topic", "k"), QUEUE.format("write", "c1", "ada")),
    (
        "bind an exchange",
        lambda c: c.exchange_bind("c.topic", "r.topic", "k"),
        EXCHANGE.format("write", "c.topic", "ada"),
    ),
    (
        "bind to an exchange",
        lambda c: c.exchange_bind("w.topic", "c.topic", "k"),
        EXCHANGE.format("read", "c.topic", "ada"),
    ),
    (
        "unbind an exchange",
        lambda c: c.exchange_unbind("w.topic", "c.topic", "k"),
        EXCHANGE.format("read", "c.topic", "ada"),
    ),
    ("declare an exchange", lambda c: c.exchange_declare("zz", "topic"), EXCHANGE.format("configure", "zz", "ada")),
    ("delete an exchange", lambda c: c.exchange_delete("w.topic"), EXCHANGE.format("configure", "w.topic", "ada")),
    (
        "dead letters of what may not be read",
        lambda c: c.queue_declare("c.dl", arguments=DEAD_LETTERS),
        QUEUE.format("read", "c.dl", "ada"),
    ),
    (
        "an alternate of what may not be read",
        lambda c: c.exchange_declare("c.ae", "topic", arguments={"alternate-exchange": "w.topic"}),
        EXCHANGE.format("read", "c.ae", "ada"),
    ),
]


@pytest.mark.parametrize(("name", "work", "text"), REFUSED, ids=[each[0] for each in REFUSED])
def test_what_is_refused(broker: BrokerProcess, name: str, work: Work, text: str) -> None:
    with open_connection(broker, "ada", "a") as connection:
        channel = connection.channel()
        with pytest.raises(ChannelClosedByBroker) as caught:
            work(channel)
        assert caught.value.reply_code == 403
        assert caught.value.reply_text == f"ACCESS_REFUSED - {text}"
        assert connection.is_open


def test_dead_letters_and_alternates_need_a_place_that_may_be_written(broker: BrokerProcess) -> None:
    with open_connection(broker, "dlx", "d") as connection:
        declarations: list[Work] = [
            lambda c: c.queue_declare("c.dl", arguments={"x-dead-letter-exchange": "r.topic"}),
            lambda c: c.exchange_declare("c.ae", "topic", arguments={"alternate-exchange": "r.topic"}),
        ]
        for declare in declarations:
            with pytest.raises(ChannelClosedByBroker) as caught:
                declare(connection.channel())
            assert caught.value.reply_text == "ACCESS_REFUSED - " + EXCHANGE.format("write", "r.topic", "dlx")
        channel = connection.channel()
        channel.queue_declare("c.dl", arguments=DEAD_LETTERS)
        channel.queue_delete("c.dl")


def to_default(key: str | None = None) -> dict[str, object]:
    """Arguments by which dead letters go to the default exchange, with this key or their own."""
    named = {} if key is None else {"x-dead-letter-routing-key": key}
    return {"x-dead-letter-exchange": "", "x-message-ttl": 0, **named}


def test_dead_letters_make_only_queues_that_their_declarer_may_make(broker: BrokerProcess) -> None:
    with open_connection(broker, "mover", "m") as connection:
        for key, name in (
            ("$queue/z.new/a", "z.new', which is not there,"),
            ("$queue/w1", "w1'"),
            ("$dlq/z", "$dlq/z'"),
        ):
            with pytest.raises(ChannelClosedByBroker) as caught:
                connection.channel().queue_declare("c.dl", arguments=to_default(key))
            assert f"configure access to queue '{name} in vhost '/' refused" in str(caught.value.reply_text)
        channel = connection.channel()
        channel.confirm_delivery()
        for number, key in enumerate(("$queue/c.made", "$dlq/c.1", "w1")):
            channel.queue_declare(f"c.{number}", arguments=to_default(key))
            channel.basic_publish("", f"c.{number}", b"x", mandatory=True)
        for made in ("c.made", "$dlq/c.1", "w1"):
            until(lambda made=made: channel.basic_get(made, auto_ack=True)[2] == b"x", made)  # type: ignore[misc]
        for queue in ("c.0", "c.1", "c.2", "c.made"):
            channel.queue_delete(queue)


def test_a_dead_letters_own_key_makes_no_queue(broker: BrokerProcess) -> None:
    """Whoever published it to another exchange with that key was not asked for the right to make one."""
    with open_connection(broker) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("c.own", arguments=to_default())
        channel.queue_declare("there", arguments={})
        keys = ["$queue/z.made", "$dlq/z.made", "$queue/there"]
        for key in keys:
            channel.queue_bind("c.own", "amq.direct", key)
            channel.basic_publish("amq.direct", key, b"x", mandatory=True)
        until(lambda: channel.basic_get("there", auto_ack=True)[2] == b"x", "the one that leads somewhere")
        for name in ("z.made", "$dlq/z.made"):
            with pytest.raises(ChannelClosedByBroker, match="404"):
                connection.channel().queue_declare(name, passive=True)
        for queue in ("c.own", "there"):
            channel.queue_delete(queue)


def test_what_is_allowed(broker: BrokerProcess) -> None:
    with open_connection(broker, "ada", "a") as connection:
        channel = connection.channel()
        channel.queue_declare("c.own")
        channel.queue_delete("c.own")
        channel.queue_declare("w1", passive=True)
        channel.exchange_declare("w.topic", "topic", passive=True)
        channel.queue_bind("w1", "r.topic", "k")
        channel.confirm_delivery()
        channel.basic_publish("w.topic", "k", b"x")
        assert channel.basic_get("r1") == (None, None, None)
        channel.queue_purge("r1")


def test_a_name_that_the_broker_makes_must_be_allowed(broker: BrokerProcess) -> None:
    text = r"configure access to queue 'amq\.gen"
    with open_connection(broker, "ada", "a") as connection, pytest.raises(ChannelClosedByBroker, match=text):
        connection.channel().queue_declare("", exclusive=True)


@pytest.mark.parametrize(
    ("user", "password", "vhost", "text"),
    [
        ("guest", "guest", "nope", "vhost nope not found"),
        ("eve", "e", "/", "access to vhost '/' refused for user 'eve'"),
        ("ada", "a", "other", "access to vhost 'other' refused for user 'ada'"),
        (
            "guest",
            "guest",
            "small",
            "access to vhost 'small' refused for user 'guest': connection limit (0) is reached",
        ),
    ],
)
def test_who_may_not_enter_a_vhost(broker: BrokerProcess, user: str, password: str, vhost: str, text: str) -> None:
    with pytest.raises((ProbableAccessDeniedError, ConnectionClosedByBroker)) as caught:
        open_connection(broker, user, password, vhost)
    assert "530" in str(caught.value)
    assert f"NOT_ALLOWED - {text}" in str(caught.value)


def test_who_is_restricted_to_a_vhost_may_do_everything_there(broker: BrokerProcess) -> None:
    with open_connection(broker, "eve", "e", "other") as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"x")
        assert channel.basic_get("q", auto_ack=True)[2] == b"x"


def test_queues_of_one_name_in_two_vhosts_are_apart_also_after_a_kill(tmp_path: Path) -> None:
    with running(tmp_path, vhosts=[{"name": "one", "queues_max": 1}]) as broker:
        for vhost in ("/", "one"):
            with open_connection(broker, vhost=vhost) as connection:
                channel = connection.channel()
                channel.queue_declare("q", durable=True)
                channel.confirm_delivery()
                channel.basic_publish("", "q", f"in {vhost}".encode())
        broker.kill9()
        broker.start()
        for vhost in ("/", "one"):
            with open_connection(broker, vhost=vhost) as connection:
                channel = connection.channel()
                assert channel.queue_declare("q", passive=True).method.message_count == 1
                assert channel.basic_get("q", auto_ack=True)[2] == f"in {vhost}".encode()
        with open_connection(broker, vhost="one") as connection:
            channel = connection.channel()
            with pytest.raises(ChannelClosedByBroker) as caught:
                channel.queue_declare("second", durable=True)
            assert (caught.value.reply_code, caught.value.reply_text) == (
                406,
                "PRECONDITION_FAILED - cannot declare queue 'second': queue limit in vhost 'one' (1) is reached",
            )
