"""Reason codes and acknowledgements that a client may not send end its connection [MQTT-4.8.0-1]."""

from __future__ import annotations

import pytest

from tests.broker_process import Dialled
from tests.conformance.mqtt.raw import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    UNSUBACK,
    V311,
    acknowledge,
    connected,
    packet,
    publish,
    split_block,
    unsubscribe,
)

MALFORMED, PROTOCOL_ERROR, FILTER_INVALID = 0x81, 0x82, 0x8F


@pytest.mark.parametrize(
    ("kind", "code"),
    [(PUBACK, 0xFF), (PUBACK, 0x01), (PUBACK, 0x92), (PUBREC, 0x02), (PUBREL, 0x80), (PUBCOMP, 0x20), (PUBCOMP, 0x91)],
)
def test_an_acknowledgement_with_a_reason_code_of_another_packet_is_malformed(
    broker: Dialled, kind: int, code: int
) -> None:
    client = connected(broker)
    client.send(acknowledge(kind, 7, code))
    client.refused(MALFORMED)


@pytest.mark.parametrize(("code", "answer"), [(0x05, MALFORMED), (0xFF, MALFORMED), (0x8D, PROTOCOL_ERROR)])
def test_a_disconnect_with_a_reason_code_that_no_client_has_is_answered(
    broker: Dialled, code: int, answer: int
) -> None:
    client = connected(broker)
    client.send(packet(0xE0, bytes([code])))
    client.refused(answer)


@pytest.mark.parametrize(("qos", "kind"), [(1, PUBREC), (1, PUBCOMP), (2, PUBACK), (2, PUBCOMP)])
@pytest.mark.parametrize("version", [5, V311])
def test_an_acknowledgement_of_another_qos_ends_the_connection(
    broker: Dialled, qos: int, kind: int, version: int
) -> None:
    client = connected(broker, f"q{qos}{kind}{version}", version)
    client.subscribe("t", qos=qos)
    publisher = connected(broker, "p")
    publisher.send(publish("t", b"m", qos, 1))
    found = client.delivery()
    client.send(acknowledge(kind, found.id))
    if version == V311:
        assert client.ended()
    else:
        client.refused(PROTOCOL_ERROR)
    publisher.close()


def test_the_end_of_a_subscription_to_no_filter_is_refused(broker: Dialled) -> None:
    client = connected(broker)
    client.subscribe("a/+")
    client.send(unsubscribe(4, "a/b+", "a/#/b", "a/+", "b"))
    answer = client.expect(UNSUBACK)
    reason, codes = split_block(answer[2:])
    assert list(codes) == [FILTER_INVALID, FILTER_INVALID, 0, 0x11]
    assert b"'+' must stand alone" in reason
    client.close()
