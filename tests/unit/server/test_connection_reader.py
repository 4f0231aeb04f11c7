"""Connections are read as values, which another process could be sent."""

from __future__ import annotations

from pathlib import Path

import msgspec
import uvloop

from forebay.server.connection_reader import GONE, ConnectionReading
from tests.held_app import amqp_client, held_app, until


def test_a_connection_is_read_as_a_value(tmp_path: Path) -> None:
    async def read() -> None:
        async with held_app(tmp_path) as app:
            _, writer = await amqp_client(app)
            (id,) = app.clients.ids()
            name = app.clients.name(id)
            assert app.clients.find(name) == id and app.clients.find(f"{name}0") is None
            assert app.clients.ids("guest") == app.clients.ids(vhost=0) == [id]
            assert app.clients.ids("nobody") == app.clients.ids(vhost=1) == []
            found = app.clients.read(id)
            assert found is not None
            assert (found.name, found.counts.user, found.vhost, found.tls) == (name, "guest", "/", None)
            assert found.counts == app.clients.counts(id)
            assert msgspec.json.decode(msgspec.json.encode(found), type=ConnectionReading) == found
            writer.close()

    uvloop.run(read())


def test_a_connection_that_is_gone_is_read_as_none(tmp_path: Path) -> None:
    async def read() -> None:
        async with held_app(tmp_path) as app:
            _, writer = await amqp_client(app)
            (id,) = app.clients.ids()
            writer.close()
            await until(lambda: not app.clients.ids())
            reader = app.clients
            assert (reader.name(id), reader.peer(id), reader.user(id), reader.protocol(id)) == (GONE,) * 4
            assert reader.read(id) is None and reader.counts(id) is None and reader.sessions(id) is None
            assert reader.channels(id) == [] and reader.channel_count([id]) == 0

    uvloop.run(read())
