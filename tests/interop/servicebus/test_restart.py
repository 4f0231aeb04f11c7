"""What Azure's client finds after the broker was killed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from azure.servicebus import ServiceBusMessage

from tests.broker_process import running
from tests.interop.servicebus.site import OPTIONS, client_of


def test_deferred_messages_states_and_scheduled_messages_survive(tmp_path: Path) -> None:
    with running(tmp_path, **OPTIONS) as broker:
        with client_of(broker) as client, client.get_queue_sender("jobs") as sender:
            sender.send_messages([ServiceBusMessage("deferred"), ServiceBusMessage("active")])
            with client.get_queue_receiver("jobs") as receiver:
                found = receiver.receive_messages(1, max_wait_time=10)
                receiver.defer_message(found[0])
                number = found[0].sequence_number
            (due,) = sender.schedule_messages(ServiceBusMessage("later"), datetime.now(UTC) + timedelta(hours=1))
            with client.get_queue_receiver("chats", session_id="s") as receiver:
                receiver.session.set_state(b"kept")
            broker.kill9()
        broker.start()
        with client_of(broker) as client, client.get_queue_sender("jobs") as sender:
            with client.get_queue_receiver("jobs") as receiver:
                (active,) = receiver.receive_messages(5, max_wait_time=10)
                assert str(active) == "active", "what is deferred is not delivered"
                receiver.complete_message(active)
                (deferred,) = receiver.receive_deferred_messages(number)
                assert str(deferred) == "deferred"
                receiver.complete_message(deferred)
            sender.cancel_scheduled_messages(due)
            with client.get_queue_receiver("chats", session_id="s") as receiver:
                assert receiver.session.get_state() == b"kept"
