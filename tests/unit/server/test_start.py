"""Starting and stopping the real process."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from tests.broker_process import BrokerProcess


def test_ready_names_process_data_and_listeners(broker: BrokerProcess) -> None:
    assert broker.ready["pid"] == broker.pid
    assert Path(str(broker.ready["data"])).samefile(broker.data)
    for port in (broker.amqp_port, broker.mqtt_port):
        socket.create_connection(("127.0.0.1", port)).close()


def test_sigterm_ends_with_0_and_data_serves_again_on_the_same_ports(broker: BrokerProcess) -> None:
    before = (broker.amqp_port, broker.mqtt_port)
    broker.stop()
    broker.start()
    assert (broker.amqp_port, broker.mqtt_port) == before


def test_a_killed_broker_starts_again(broker: BrokerProcess) -> None:
    broker.kill9()
    broker.restart()
    assert broker.ready["pid"] == broker.pid


def test_a_second_broker_on_the_same_data_is_refused(broker: BrokerProcess, tmp_path: Path) -> None:
    second = BrokerProcess(tmp_path / "second", data=broker.data)
    second.launch()
    assert second.wait() != 0
    assert str(broker.data) in second.log_text()
    assert "Traceback" not in second.log_text()
    socket.create_connection(("127.0.0.1", broker.amqp_port)).close()


def test_a_port_in_use_is_refused_with_its_address(broker: BrokerProcess, tmp_path: Path) -> None:
    second = BrokerProcess(tmp_path / "second", amqp=f"127.0.0.1:{broker.amqp_port}")
    second.launch()
    assert second.wait() != 0
    assert f"127.0.0.1:{broker.amqp_port}" in second.log_text()
    assert "Traceback" not in second.log_text()


def test_options_reach_the_broker(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(mqtt="", handshake_timeout_ms=1000)
    assert not broker.ready.get("mqtt")
