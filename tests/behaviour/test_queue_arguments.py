"""Arguments of queues on a running broker: types by default, redeclarations, the configuration's own queues."""

from __future__ import annotations

from collections.abc import Callable

import pika

from tests.behaviour.kinds import QUORUM, Reader, open_channel
from tests.broker_process import BrokerProcess

Start = Callable[..., BrokerProcess]


def declare(broker: BrokerProcess, name: str = "q", arguments: dict[str, object] | None = None, **flags: bool) -> str:
    """Declare a queue on a channel of its own; what the broker says against it, empty if nothing."""
    channel = open_channel(broker)
    try:
        channel.queue_declare(name, **{"durable": True, **flags}, arguments=arguments)
    except pika.exceptions.ChannelClosedByBroker as error:
        return f"{error.reply_code} {error.reply_text}"
    return ""


def type_of(broker: BrokerProcess, name: str) -> str:
    told = declare(broker, name, {"x-queue-type": "stream"})
    return told.rpartition("current is ")[2].strip("'") or "stream"


def test_a_redeclaration_has_to_ask_for_the_same_also_after_a_kill(broker: BrokerProcess) -> None:
    arguments: dict[str, object] = {"x-max-length": 10, "x-dead-letter-exchange": "", "x-ha-params": {"a": [1, None]}}
    for _ in range(2):
        assert declare(broker, arguments=arguments) == ""
        assert declare(broker, arguments={**arguments, "x-max-length": 5}) == (
            "406 PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received '5' but "
            "current is '10'"
        )
        assert declare(broker, arguments={**arguments, "x-max-length": "10"}) == (
            "406 PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received '10' "
            "(longstr) but current is '10' (signedint)"
        )
        assert declare(broker, arguments={"x-max-length": 10}) == (
            "406 PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' for queue 'q' in vhost '/': received "
            "none but current is the value '' of type 'longstr'"
        )
        assert declare(broker, arguments=arguments, durable=False) == (
            "406 PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but "
            "current is 'true'"
        )
        assert declare(broker, arguments=arguments, exclusive=True).startswith(
            "405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be "
        )
        broker.kill9()
        broker.start()


def test_a_quorum_queue_is_durable_and_nobodys_and_has_a_name(broker: BrokerProcess) -> None:
    quorum: dict[str, object] = {"x-queue-type": "quorum"}
    prefix = "406 PRECONDITION_FAILED - "
    assert (
        declare(broker, "q", quorum, durable=False)
        == f"{prefix}invalid property 'non-durable' for queue 'q' in vhost '/'"
    )
    assert declare(broker, "q", quorum, exclusive=True) == (
        f"{prefix}invalid property 'exclusive-owner' for queue 'q' in vhost '/'"
    )
    assert declare(broker, "q", quorum, auto_delete=True) == (
        f"{prefix}invalid property 'auto-delete' for queue 'q' in vhost '/'"
    )
    assert declare(broker, "", quorum) == f"{prefix}Cannot declare a server-named queue for type rabbit_quorum_queue"
    assert declare(broker, "q", {**quorum, "x-max-priority": 5}) == (
        f"{prefix}invalid arg 'x-max-priority' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue"
    )
    assert "no queue 'q'" in declare(broker, "q", passive=True)
    assert declare(broker, "q", quorum) == ""


def test_the_default_type_is_for_queues_that_can_be_of_it(start_broker: Start) -> None:
    broker = start_broker(default_queue_type="quorum")
    assert declare(broker, "plain") == ""
    assert declare(broker, "told", {"x-queue-type": "classic"}) == ""
    assert declare(broker, "leaving", auto_delete=True) == ""
    assert declare(broker, "light", durable=False) == ""
    assert declare(broker, "") == ""
    assert declare(broker, "mine", exclusive=True) == ""
    for _ in range(2):
        assert [type_of(broker, name) for name in ("plain", "told")] == ["quorum", "classic"]
        assert declare(broker, "plain") == "" and declare(broker, "plain", {"x-queue-type": "quorum"}) == ""
        broker.kill9()
        broker.start()


def test_relaxed_checks_let_a_program_for_classic_queues_use_a_quorum_queue(start_broker: Start) -> None:
    broker = start_broker(queue_type_equivalence_relaxed=True)
    assert declare(broker, "q", {"x-queue-type": "quorum", "x-max-length": 5}) == ""
    assert declare(broker, "q", {"x-queue-type": "classic", "x-max-length": 5}) == ""
    assert declare(broker, "q", {"x-max-length": 5}) == ""
    assert "'x-max-length'" in declare(broker, "q")


def test_what_the_configuration_says_of_a_queue_may_change(start_broker: Start) -> None:
    def configured(visibility_ms: int, length: int) -> list[dict[str, object]]:
        work = {"name": "q", "type": "quorum", "visibility_timeout_ms": visibility_ms}
        return [work, {"name": "s", "type": "stream", "retention": {"max_length_messages": length}}]

    broker = start_broker(queues=configured(0, 0))
    assert declare(broker, "q", {"x-queue-type": "quorum"}) == ""
    assert declare(broker, "s", {"x-queue-type": "stream"}) == ""
    broker.hang_up()
    broker.stop()
    broker.options["queues"] = configured(250, 7)
    for _ in range(2):  # the second time it comes from the log
        broker.start()
        assert declare(broker, "q", {"x-queue-type": "quorum", "x-visibility-timeout": 250}) == ""
        assert declare(broker, "s", {"x-queue-type": "stream", "x-max-length": 7}) == ""
        channel = open_channel(broker)
        channel.basic_publish("", "q", b"slow")
        reader = Reader(channel, QUORUM, "q")
        assert [got.body for got in reader.wait(2)[:2]] == [b"slow", b"slow"]  # it came back
        channel.basic_ack(reader.got[-1].tag)
        broker.kill9()


def test_a_queue_does_not_change_its_type_by_the_configuration(start_broker: Start) -> None:
    broker = start_broker()
    assert declare(broker, "q") == ""
    broker.hang_up()
    broker.stop()
    broker.options["queues"] = [{"name": "q", "type": "stream"}]
    broker.launch()
    assert broker.wait() == 2
    assert "queues: 'q' is to be a stream queue, but there is a classic queue of that name" in broker.log_text()
