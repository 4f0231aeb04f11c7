"""Azure's Python client in its emulator mode, as people use it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from tests.broker_process import BrokerProcess, running
from tests.interop.servicebus.site import (
    LOCK_MS,
    OPTIONS,
    OTHER_KEY,
    by_signature,
    client_of,
    connection_string,
    signature,
)
from tests.waiting import pause


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that the tests of this module share."""
    folder: Path = tmp_path_factory.mktemp("servicebus")
    with running(folder, **OPTIONS) as made:
        yield made


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[Any]:
    with client_of(broker) as made:
        yield made


def take(receiver: Any, count: int) -> list[ServiceBusReceivedMessage]:
    """So many messages, in the order in which they come."""
    found: list[ServiceBusReceivedMessage] = []
    while len(found) < count:
        more = receiver.receive_messages(max_message_count=count - len(found), max_wait_time=10)
        assert more, f"{len(found)} of {count} messages came"
        found += more
    return found


def send(client: Any, queue: str, *bodies: str, **more: Any) -> None:
    with client.get_queue_sender(queue) as sender:
        for body in bodies:
            sender.send_messages(ServiceBusMessage(body, **more))


def bodies(found: list[ServiceBusReceivedMessage]) -> list[str]:
    return [str(each) for each in found]


# ---- messages


def test_messages_there_and_back(client: Any) -> None:
    with client.get_queue_sender("jobs") as sender, client.get_queue_receiver("jobs") as receiver:
        sent = ServiceBusMessage(
            "body",
            message_id="m1",
            subject="greeting",
            content_type="text/plain",
            correlation_id="c1",
            reply_to="answers",
            application_properties={"number": 7, "text": "seven"},
            time_to_live=timedelta(hours=1),
            partition_key="p1",
        )
        sender.send_messages(sent)
        (found,) = take(receiver, 1)
        assert (found.message_id, found.subject, found.content_type) == ("m1", "greeting", "text/plain")
        assert (found.correlation_id, found.reply_to, found.partition_key) == ("c1", "answers", "p1")
        assert found.application_properties == {b"number": 7, b"text": b"seven"}
        assert found.delivery_count == 0
        assert isinstance(found.lock_token, uuid.UUID)
        assert found.enqueued_time_utc is not None and found.locked_until_utc is not None
        assert abs(datetime.now(UTC) - found.enqueued_time_utc) < timedelta(minutes=1)
        assert found.locked_until_utc > datetime.now(UTC)
        receiver.complete_message(found)


def test_a_batch_is_as_many_messages(client: Any) -> None:
    with client.get_queue_sender("jobs") as sender, client.get_queue_receiver("jobs") as receiver:
        batch = sender.create_message_batch()
        for number in range(50):
            batch.add_message(ServiceBusMessage(f"b{number}", application_properties={"number": number}))
        sender.send_messages(batch)
        found = take(receiver, 50)
        assert bodies(found) == [f"b{number}" for number in range(50)]
        numbers = [each.sequence_number for each in found]
        assert numbers == list(range(numbers[0], numbers[0] + 50))
        for each in found:
            receiver.complete_message(each)


def test_a_message_without_an_identifier_has_one(client: Any) -> None:
    send(client, "jobs", "x")
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver("jobs", receive_mode=mode, max_wait_time=5) as receiver:
        (found,) = take(receiver, 1)
        assert found.message_id
        assert not receiver.receive_messages(max_wait_time=1), "received is deleted"


# ---- settling


def test_abandon(client: Any) -> None:
    send(client, "jobs", "again")
    with client.get_queue_receiver("jobs") as receiver:
        for count in range(3):
            (found,) = take(receiver, 1)
            assert found.delivery_count == count
            if count < 2:
                receiver.abandon_message(found)
        receiver.complete_message(found)


def test_dead_letters_say_why(client: Any) -> None:
    send(client, "jobs", "bad", application_properties={"number": 7})
    with client.get_queue_receiver("jobs") as receiver:
        (found,) = take(receiver, 1)
        receiver.dead_letter_message(found, reason="unknown customer", error_description="there is no 7")
    with client.get_queue_receiver("jobs", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as letters:
        (letter,) = take(letters, 1)
        assert (letter.dead_letter_reason, letter.dead_letter_error_description) == (
            "unknown customer",
            "there is no 7",
        )
        assert letter.application_properties[b"number"] == 7
        letters.complete_message(letter)


def test_a_queue_without_dead_letters_refuses_them_and_loses_nothing(client: Any) -> None:
    send(client, "plain", "bad")
    with client.get_queue_receiver("plain") as receiver:
        (found,) = take(receiver, 1)
        with pytest.raises(ServiceBusError, match="has no dead letters"):
            receiver.dead_letter_message(found, reason="bad")
    with pytest.raises(MessagingEntityNotFoundError, match="x-dlq"):
        client.get_queue_receiver("plain", sub_queue=ServiceBusSubQueue.DEAD_LETTER).__enter__()
    with client.get_queue_receiver("plain") as receiver:
        (found,) = take(receiver, 1)
        receiver.complete_message(found)


def test_a_lock_that_is_renewed_lasts(client: Any) -> None:
    send(client, "short", "slow")
    with client.get_queue_receiver("short") as receiver:
        (found,) = take(receiver, 1)
        for _ in range(3):
            pause(LOCK_MS / 2000)
            assert receiver.renew_message_lock(found) > datetime.now(UTC)
        receiver.complete_message(found)
        assert not receiver.receive_messages(max_wait_time=1)


def test_a_lock_that_is_not_renewed_is_lost(client: Any) -> None:
    send(client, "short", "late")
    with client.get_queue_receiver("short") as receiver, client.get_queue_receiver("short") as other:
        (found,) = take(receiver, 1)
        (again,) = take(other, 1)
        assert again.delivery_count == 1
        with pytest.raises(MessageLockLostError):
            receiver.renew_message_lock(found)
        found._expiry = datetime.now(UTC) + timedelta(hours=1)  # or the client would not even ask
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(found)
        other.complete_message(again)


def test_what_a_client_held_that_vanishes_comes_back(broker: BrokerProcess, client: Any) -> None:
    send(client, "jobs", "held")
    rude = client_of(broker)
    receiver = rude.get_queue_receiver("jobs")
    take(receiver, 1)
    receiver._handler._connection._transport.sock.close()
    with client.get_queue_receiver("jobs") as other:
        (found,) = take(other, 1)
        assert (str(found), found.delivery_count) == ("held", 1)
        other.complete_message(found)


# ---- deferred, scheduled, peeked


def test_deferred_messages_are_received_by_number(client: Any) -> None:
    send(client, "jobs", "later", "now")
    with client.get_queue_receiver("jobs", max_wait_time=2) as receiver:
        later, now = take(receiver, 2)
        receiver.defer_message(later)
        receiver.complete_message(now)
        assert not receiver.receive_messages(max_wait_time=1)
        (peeked,) = receiver.peek_messages(sequence_number=later.sequence_number)
        assert peeked.state.name == "DEFERRED"
        (found,) = receiver.receive_deferred_messages(later.sequence_number)
        assert str(found) == "later"
        assert receiver.renew_message_lock(found) > datetime.now(UTC)
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(later.sequence_number)
        receiver.abandon_message(found)
        (found,) = receiver.receive_deferred_messages(later.sequence_number)
        receiver.complete_message(found)
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(later.sequence_number)


def test_a_deferred_message_may_die(client: Any) -> None:
    send(client, "jobs", "worse")
    with client.get_queue_receiver("jobs") as receiver:
        (found,) = take(receiver, 1)
        receiver.defer_message(found)
        (found,) = receiver.receive_deferred_messages(found.sequence_number)
        receiver.dead_letter_message(found, reason="worse")
    with client.get_queue_receiver("jobs", sub_queue="deadletter") as letters:
        (letter,) = take(letters, 1)
        assert letter.dead_letter_reason == "worse"
        letters.complete_message(letter)


def test_scheduled_messages(client: Any) -> None:
    due = datetime.now(UTC) + timedelta(seconds=1.5)
    with client.get_queue_sender("jobs") as sender, client.get_queue_receiver("jobs") as receiver:
        numbers = sender.schedule_messages([ServiceBusMessage("later"), ServiceBusMessage("never")], due)
        assert len(set(numbers)) == 2
        sender.cancel_scheduled_messages(numbers[1])
        with pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages(numbers[1])
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(numbers[0])
        (found,) = take(receiver, 1)
        assert str(found) == "later"
        assert datetime.now(UTC) >= due
        assert abs(found.scheduled_enqueue_time_utc - due) < timedelta(milliseconds=2)
        receiver.complete_message(found)


def test_a_message_that_says_itself_when_it_is_due(client: Any) -> None:
    due = datetime.now(UTC) + timedelta(seconds=1)
    send(client, "jobs", "soon", scheduled_enqueue_time_utc=due)
    with client.get_queue_receiver("jobs") as receiver:
        (found,) = take(receiver, 1)
        assert datetime.now(UTC) >= due
        receiver.complete_message(found)


def test_what_is_scheduled_for_one_queue_is_not_cancelled_by_another(client: Any) -> None:
    due = datetime.now(UTC) + timedelta(hours=1)
    with client.get_queue_sender("jobs") as sender, client.get_queue_sender("plain") as other:
        (number,) = sender.schedule_messages(ServiceBusMessage("x"), due)
        with pytest.raises(MessageNotFoundError):
            other.cancel_scheduled_messages(number)
        sender.cancel_scheduled_messages(number)


def test_peeking_locks_nothing(client: Any) -> None:
    send(client, "plain", "p1", "p2", "p3")
    with client.get_queue_receiver("plain") as receiver:
        peeked = receiver.peek_messages(10, sequence_number=1)
        assert bodies(peeked) == ["p1", "p2", "p3"]
        assert bodies(receiver.peek_messages(10, sequence_number=peeked[1].sequence_number)) == ["p2", "p3"]
        assert receiver.peek_messages(10, sequence_number=peeked[2].sequence_number + 1) == []
        found = take(receiver, 3)
        assert bodies(receiver.peek_messages(10, sequence_number=1)) == ["p1", "p2", "p3"], "locked ones, too"
        for each in found:
            receiver.complete_message(each)
        assert receiver.peek_messages(10, sequence_number=1) == []


# ---- sessions


def test_a_session_has_its_messages_alone(client: Any) -> None:
    for number in range(3):
        send(client, "chats", f"a{number}", session_id="a")
        send(client, "chats", f"b{number}", session_id="b")
    with client.get_queue_receiver("chats", session_id="b") as receiver:
        assert receiver.session.locked_until_utc > datetime.now(UTC)
        for number in range(3):
            (found,) = take(receiver, 1)
            assert (str(found), found.session_id) == (f"b{number}", "b")
            receiver.complete_message(found)
        with pytest.raises(SessionCannotBeLockedError):
            client.get_queue_receiver("chats", session_id="b").__enter__()
    with client.get_queue_receiver("chats", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=5) as receiver:
        assert receiver.session.session_id == "a"
        for number in range(3):
            (found,) = take(receiver, 1)
            assert str(found) == f"a{number}"
            receiver.complete_message(found)
        with pytest.raises(OperationTimeoutError):
            client.get_queue_receiver("chats", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=2).__enter__()


def test_the_state_of_a_session(client: Any) -> None:
    with client.get_queue_receiver("chats", session_id="s") as receiver:
        assert receiver.session.get_state() is None
        receiver.session.set_state("one")
        receiver.session.set_state(b"two")
        assert receiver.session.get_state() == b"two"
        with pytest.raises(ServiceBusError, match="at most"):
            receiver.session.set_state(b"x" * (300 << 10))
    with client.get_queue_receiver("chats", session_id="s") as receiver:
        assert receiver.session.get_state() == b"two"
        receiver.session.set_state(None)
        assert receiver.session.get_state() is None


def test_the_lock_of_a_session_ends_unless_it_is_renewed(client: Any) -> None:
    with client.get_queue_receiver("chats", session_id="slow") as receiver:
        for _ in range(3):
            pause(LOCK_MS / 1000)
            assert receiver.session.renew_lock() > datetime.now(UTC)
        pause(2 * LOCK_MS / 1000 + 1.5)
        with client.get_queue_receiver("chats", session_id="slow") as other:
            receiver.session._locked_until_utc = None  # or the client would not even ask
            with pytest.raises(SessionLockLostError):
                receiver.session.get_state()
            assert other.session.get_state() is None


def test_a_deferred_message_does_not_hold_its_session_up(client: Any) -> None:
    send(client, "chats", "d0", "d1", session_id="d")
    with client.get_queue_receiver("chats", session_id="d") as receiver:
        (first,) = take(receiver, 1)
        receiver.defer_message(first)
        (second,) = take(receiver, 1)
        assert str(second) == "d1"
        receiver.complete_message(second)
        (first,) = receiver.receive_deferred_messages(first.sequence_number)
        receiver.complete_message(first)


# ---- who may do what


def test_a_wrong_key(broker: BrokerProcess) -> None:
    text = connection_string(broker, OTHER_KEY)
    with client_of(broker, text) as client, pytest.raises(ServiceBusAuthenticationError):
        client.get_queue_sender("jobs").__enter__()


def test_a_key_of_a_user_that_does_not_exist(broker: BrokerProcess) -> None:
    text = connection_string(broker, user="nobody")
    with client_of(broker, text) as client, pytest.raises(ServiceBusAuthenticationError):
        client.get_queue_sender("jobs").__enter__()
    assert "user 'nobody' does not exist" in broker.log_text()


def test_a_token_that_has_expired(broker: BrokerProcess) -> None:
    token = signature(f"sb://127.0.0.1:{broker.amqp_port}/jobs", expires_s=-5)
    with client_of(broker, by_signature(broker, token)) as client, pytest.raises(ServiceBusError):
        client.get_queue_sender("jobs").__enter__()
    assert "has expired" in broker.log_text()


def test_a_token_gives_access_to_its_entity_and_no_other(broker: BrokerProcess) -> None:
    token = signature(f"sb://127.0.0.1:{broker.amqp_port}/jobs")
    with client_of(broker, by_signature(broker, token)) as client:
        send(client, "jobs", "mine")
        with client.get_queue_receiver("jobs") as receiver:
            (found,) = take(receiver, 1)
            receiver.complete_message(found)
        with pytest.raises(ServiceBusAuthorizationError, match="no token"):
            client.get_queue_sender("plain").__enter__()
        with pytest.raises(ServiceBusAuthorizationError, match="no token"):
            client.get_queue_receiver("plain").__enter__()


def test_links_end_with_their_token(broker: BrokerProcess) -> None:
    token = signature(f"sb://127.0.0.1:{broker.amqp_port}/jobs", expires_s=4)
    with client_of(broker, by_signature(broker, token)) as client, client.get_queue_sender("jobs") as sender:
        pause(6)
        with pytest.raises(ServiceBusError):
            sender.send_messages(ServiceBusMessage("too late"))


def test_rights_are_those_of_the_user(broker: BrokerProcess, client: Any) -> None:
    send(client, "plain", "read me")
    with client_of(broker, connection_string(broker, OTHER_KEY, "reader")) as reader:
        with pytest.raises(ServiceBusAuthorizationError):
            reader.get_queue_sender("plain").__enter__()
        with reader.get_queue_receiver("plain") as receiver:
            (found,) = take(receiver, 1)
            receiver.complete_message(found)


def test_what_there_is_not_is_refused_by_name(client: Any) -> None:
    with pytest.raises(MessagingEntityNotFoundError, match="no queue 'none'"):
        client.get_queue_sender("none").__enter__()
    with pytest.raises(ServiceBusError, match="no subscriptions"):
        client.get_subscription_receiver("topic", "all").__enter__()
    with pytest.raises(ServiceBusError, match="no transfer dead letters"):
        client.get_queue_receiver("jobs", sub_queue=ServiceBusSubQueue.TRANSFER_DEAD_LETTER).__enter__()
