"""Clients that go away between two callbacks of the event loop: nobody writes to a connection that was lost."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import uvloop

from tests.conformance.mqtt import raw as mqtt
from tests.held_app import amqp_client, held_app, mqtt_client, until
from tests.rude import RESET

DRAIN_TIMEOUT_US = 20_000_000  # longer than `drain_timeout_ms` is by default


def test_a_heartbeat_is_not_sent_to_a_client_that_has_just_gone(tmp_path: Path) -> None:
    """The end of a socket is seen first and told in a callback; the second's work may come between the two."""

    async def go_before_the_tick() -> None:
        async with held_app(tmp_path) as app:
            _, writer = await amqp_client(app)
            (connection,) = app.connections.values()
            connection.transport.abort()  # as when the loop has read the end: `connection_lost` is to come
            app.every_second(app.now_us())
            assert connection.session is not None and len(connection.session.out), "a heartbeat is due"
            assert connection in app.broker.dirty
            await until(lambda: not app.connections)
            assert not app.broker.dirty and not app.open
            app.turn()
            writer.close()

    uvloop.run(go_before_the_tick())


def test_a_lost_connection_takes_part_in_nothing(tmp_path: Path) -> None:
    async def lose_and_touch() -> None:
        async with held_app(tmp_path) as app:
            _, writer = await amqp_client(app)
            (connection,) = app.connections.values()
            session = connection.session
            assert session is not None
            app.broker.waiting[connection] = None
            app.touch(connection)
            connection.transport.abort()
            await until(lambda: not app.connections)
            assert not app.broker.waiting and connection.session is None
            app.touch(connection)
            app.broker.pause(connection, False)
            session.dismiss("too late")
            connection.flush()
            assert not app.broker.dirty
            writer.close()

    uvloop.run(lose_and_touch())


def test_who_resets_before_being_accepted_has_failed_no_login(tmp_path: Path) -> None:
    """Nobody knows any more from where it came; it was taken for a stranger, as whom `guest` may not log in."""

    async def reset_at_once() -> None:
        async with held_app(tmp_path) as app:
            host, _, port = app.addresses["mqtt"].rpartition(":")
            for _ in range(20):
                with socket.create_connection((host, int(port))) as client:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    client.sendall(mqtt.connect("c"))
            _, writer = await mqtt_client(app)
            assert not app.auth.throttle.known and not app.stats.refused_logins
            writer.close()

    uvloop.run(reset_at_once())


def test_who_is_taken_over_and_does_not_read_is_closed_in_the_end(tmp_path: Path) -> None:
    """Its goodbye waits behind what it does not take; its socket is still the broker's."""

    async def take_over() -> None:
        async with held_app(tmp_path) as app:
            first = await mqtt_client(app)
            (connection,) = app.connections.values()
            connection.transport.write(bytes(32 << 20))  # more than the system takes
            second = await mqtt_client(app)
            assert len(app.connections) == 1 and connection not in app.connections.values()
            assert connection in app.open and connection.closing
            while connection in app.open:
                app.every_second(app.now_us() + DRAIN_TIMEOUT_US)
                await asyncio.sleep(0)
            for _, writer in (first, second):
                writer.close()

    uvloop.run(take_over())
