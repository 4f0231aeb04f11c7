"""CoAP in a cluster: the node that leads serves it, and no other."""

from __future__ import annotations

from pathlib import Path

from tests.broker_process import free_port
from tests.cluster.nodes import cluster_of
from tests.conformance.coap.raw import CHANGED, GET, GUEST, PUT, Client, encode
from tests.etcd import Etcd
from tests.waiting import until


def answer(client: Client) -> bytes | None:
    """The retained message, if somebody answers."""
    try:
        client.send(encode(client.make(GET, "topic/a", GUEST)))
        found = client.hear(0.2)
    except ConnectionRefusedError:
        return None
    return None if found is None else found.payload


def test_the_leader_serves_and_the_next_leader_goes_on(tmp_path: Path, etcd: Etcd) -> None:
    # All nodes have one address, which only one of them can have at a time.
    port = free_port()
    with cluster_of(tmp_path, etcd, coap=f"127.0.0.1:{port}") as cluster:
        client = Client(port)
        until(lambda: answer(client) == b"")
        assert client.request(PUT, "publish/a", (*GUEST, "retain=true"), payload=b"kept").code == CHANGED
        cluster.leader().kill9()
        until(lambda: answer(client) == b"kept")
        client.close()
