"""What Prometheus is told, read by Prometheus's own parsers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import httpx
import pika
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from forebay.admin.metrics.gather import known_groups
from tests.admin.clients import mqtt, open_channel, publish_mqtt
from tests.broker_process import BrokerProcess, running
from tests.waiting import until

ADDRESS = "127.0.0.1:0"
Samples = dict[str, dict[tuple[str, ...], float]]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("metrics"), http=ADDRESS, prometheus=ADDRESS) as made:
        yield made


def scrape(broker: BrokerProcess, path: str = "/metrics") -> Samples:
    """Numbers by name and the values of their labels."""
    with urlopen(f"http://127.0.0.1:{broker.port('prometheus')}{path}") as answer:
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        written = answer.read().decode()
    found: Samples = {}
    for metric in parse_plain(written):
        assert metric.documentation
        for sample in metric.samples:
            numbers = found.setdefault(sample.name, {})
            values = tuple(sample.labels.values())
            assert values not in numbers, f"{sample.name}{values} is there twice"
            numbers[values] = sample.value
    return found


def one(samples: Samples, name: str, *values: str) -> float:
    return samples[name][values]


def test_every_step_of_a_message_is_counted(broker: BrokerProcess) -> None:
    before = scrape(broker)
    with open_channel(broker) as channel:
        channel.queue_declare("counted", durable=True, arguments={"x-max-length": 10})
        for _ in range(12):
            channel.basic_publish("", "counted", b"x")
        for settle in ("ack", "ack", "nack", "reject"):
            method, _, _ = channel.basic_get("counted")
            assert method is not None
            if settle == "ack":
                channel.basic_ack(method.delivery_tag)
            elif settle == "nack":
                channel.basic_nack(method.delivery_tag, requeue=True)
            else:
                channel.basic_reject(method.delivery_tag, requeue=False)
        channel.basic_get("counted", auto_ack=True)
        method, _, _ = channel.basic_get("counted")
        channel.basic_publish("amq.direct", "nowhere", b"x")
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("amq.direct", "nowhere", b"x", mandatory=True)
        broker_side = scrape(broker)
        queues = scrape(broker, "/metrics/per-object")
    here = ("/", "counted")
    assert one(queues, "rabbitmq_queue_messages_published_total", *here) == 12
    assert one(queues, "forebay_queue_messages_dropped_total", *here) == 2
    assert one(queues, "rabbitmq_queue_get_ack_total", *here) == 5
    assert one(queues, "rabbitmq_queue_get_total", *here) == 1
    assert one(queues, "rabbitmq_queue_messages_acked_total", *here) == 2
    assert one(queues, "forebay_queue_messages_rejected_total", *here) == 1
    assert one(queues, "rabbitmq_queue_messages_redelivered_total", *here) == 1
    assert one(queues, "rabbitmq_queue_messages_unacked", *here) == 1
    assert one(queues, "rabbitmq_queue_messages_ready", *here) == 5
    assert one(queues, "rabbitmq_queue_messages", *here) == 6
    assert one(queues, "forebay_group_lag_messages", *here, "") == 6

    def grown(name: str, *values: str) -> float:
        return one(broker_side, name, *values) - before.get(name, {}).get(values, 0.0)

    assert grown("rabbitmq_global_messages_received_total", "amqp091") == 14
    assert grown("rabbitmq_global_messages_received_confirm_total") == 14
    assert grown("rabbitmq_global_messages_confirmed_total") == 14
    assert grown("rabbitmq_global_messages_routed_total") == 12
    assert grown("rabbitmq_global_messages_unroutable_dropped_total") == 1
    assert grown("rabbitmq_global_messages_unroutable_returned_total") == 1
    assert grown("rabbitmq_channel_messages_published_total") == 14
    assert grown("forebay_messages_dropped_total", "maxlen") == 2
    assert grown("forebay_messages_dropped_total", "unroutable") == 2
    assert grown("rabbitmq_queues_created_total") == 1
    assert grown("rabbitmq_channels_opened_total") == 1


def test_consumers_are_told_from_who_fetches(broker: BrokerProcess) -> None:
    with open_channel(broker) as channel:
        channel.queue_declare("consumed")
        for _ in range(6):
            channel.basic_publish("", "consumed", b"x")
        for count, (method, _, _) in enumerate(channel.consume("consumed"), 1):
            channel.basic_ack(method.delivery_tag)
            if count == 6:
                break
        until(lambda: acked(broker, "consumed") == 6)
        found = scrape(broker, "/metrics/per-object")
    assert one(found, "rabbitmq_queue_messages_delivered_ack_total", "/", "consumed") == 6
    assert one(found, "rabbitmq_queue_get_ack_total", "/", "consumed") == 0
    assert one(found, "rabbitmq_queue_consumers", "/", "consumed") == 1
    channels = found["rabbitmq_channel_messages_delivered_ack_total"]
    assert [value for values, value in channels.items() if values[1] == "1" and value == 6]


def acked(broker: BrokerProcess, queue: str) -> float:
    return one(scrape(broker, "/metrics/per-object"), "rabbitmq_queue_messages_acked_total", "/", queue)


def test_no_counter_falls_when_its_objects_go(broker: BrokerProcess) -> None:
    httpx.put(f"{broker.http_url}/api/vhosts/passing", auth=("guest", "guest")).raise_for_status()
    with open_channel(broker) as channel:
        channel.queue_declare("passing")
        channel.exchange_declare("passing", "fanout")
        channel.queue_bind("passing", "passing")
        channel.basic_publish("passing", "", b"x")
        channel.basic_get("passing", auto_ack=True)
        before = scrape(broker)
        channel.queue_delete("passing")
        channel.exchange_delete("passing")
    httpx.delete(f"{broker.http_url}/api/vhosts/passing", auth=("guest", "guest")).raise_for_status()
    after = scrape(broker)
    fallen = [
        (name, values)
        for name, numbers in before.items()
        for values, number in numbers.items()
        if name.endswith("_total") and after[name].get(values, number) < number
    ]
    assert not fallen
    gone = one(after, "rabbitmq_queues_deleted_total") - one(before, "rabbitmq_queues_deleted_total")
    assert gone >= 1  # the new vhost has had a queue of its own, too


def test_dead_letters_are_counted_by_why_they_died(broker: BrokerProcess) -> None:
    before = scrape(broker)
    with open_channel(broker) as channel:
        channel.queue_declare("letters")
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
        channel.queue_declare("dying", arguments=arguments)
        channel.basic_publish("", "dying", b"x", pika.BasicProperties(expiration="1"))
        channel.basic_publish("", "dying", b"x")
        until(lambda: channel.queue_declare("letters", passive=True).method.message_count == 1)
        method, _, _ = channel.basic_get("dying")
        channel.basic_reject(method.delivery_tag, requeue=False)
        until(lambda: channel.queue_declare("letters", passive=True).method.message_count == 2)
        after = scrape(broker)
    for reason in ("expired", "rejected"):
        name = f"rabbitmq_global_messages_dead_lettered_{reason}_total"
        assert one(after, name) - one(before, name) == 1
        moved = "forebay_dead_letters_moved_total"
        assert one(after, moved, reason) - one(before, moved, reason) == 1


def test_logins_are_counted(broker: BrokerProcess) -> None:
    before = scrape(broker)
    with open_channel(broker):
        pass
    assert httpx.get(f"{broker.http_url}/api/whoami", auth=("guest", "wrong")).status_code == 401
    until(lambda: grown_since(broker, before, "rabbitmq_auth_attempts_failed_total", "http") == 1)
    assert grown_since(broker, before, "rabbitmq_auth_attempts_succeeded_total", "amqp") == 1
    assert grown_since(broker, before, "rabbitmq_auth_attempts_total", "amqp") == 1


def grown_since(broker: BrokerProcess, before: Samples, name: str, *values: str) -> float:
    return scrape(broker).get(name, {}).get(values, 0.0) - before.get(name, {}).get(values, 0.0)


def test_webhooks_are_counted(tmp_path: Path) -> None:
    hook = {"name": "nobody", "url": "http://127.0.0.1:9/", "events": ["queue.created"]}
    with running(tmp_path, prometheus=ADDRESS, webhooks=[hook]) as broker, open_channel(broker) as channel:
        channel.queue_declare("told")
        until(lambda: one(scrape(broker), "forebay_webhook_events_total", "nobody", "retried") >= 1)


def test_mqtt_is_counted(broker: BrokerProcess) -> None:
    before = scrape(broker)
    with mqtt(broker, "listener") as client:
        heard: list[bytes | bytearray] = []
        client.on_message = lambda _client, _data, message: heard.append(message.payload)
        client.subscribe("weather/#", 1)
        publish_mqtt(broker, "weather/now", "rain", retain=True)
        until(lambda: heard)
        during = scrape(broker)
    assert one(during, "forebay_mqtt_connections") >= 1
    assert one(during, "forebay_mqtt_subscriptions") - one(before, "forebay_mqtt_subscriptions") == 1
    assert one(during, "forebay_mqtt_retained_messages") - one(before, "forebay_mqtt_retained_messages") == 1
    for name in ("messages_received", "messages_sent"):
        assert one(during, f"forebay_mqtt_{name}_total") - one(before, f"forebay_mqtt_{name}_total") == 1
    assert one(during, "rabbitmq_global_messages_received_total", "mqtt") >= 1


def test_a_stream_reader_has_a_lag(broker: BrokerProcess) -> None:
    with open_channel(broker) as channel:
        channel.queue_declare("flow", durable=True, arguments={"x-queue-type": "stream"})
        for _ in range(5):
            channel.basic_publish("", "flow", b"x")
        channel.basic_qos(prefetch_count=2)
        arguments = {"x-consumer-group": "readers", "x-stream-offset": "first"}
        channel.basic_consume("flow", lambda *_: None, arguments=arguments)
        found = scrape(broker, "/metrics/detailed?family=group_metrics&vhost=/")
        assert one(found, "forebay_detailed_group_lag_messages", "/", "flow", "readers") == 5
        assert one(found, "forebay_detailed_group_lag_seconds", "/", "flow", "readers") >= 0
    assert not [name for name in found if "queue_messages" in name]


def test_groups_of_metrics_are_asked_for(broker: BrokerProcess) -> None:
    url = f"http://127.0.0.1:{broker.port('prometheus')}/metrics/detailed"
    assert {name.split("_")[1] for name in scrape(broker, "/metrics/detailed?family=queue_coarse_metrics")} == {
        "detailed"
    }
    with open_channel(broker) as channel:
        channel.queue_declare("grouped")
        channel.basic_publish("", "grouped", b"x")
        channel.basic_get("grouped", auto_ack=True)
        for group in sorted(known_groups() - {"webhook_metrics", "cluster_metrics"}):
            assert scrape(broker, f"/metrics/detailed?family={group}")
    refused = httpx.get(url, params={"family": "nothing_metrics"})
    assert refused.status_code == 400
    assert "nothing_metrics" in refused.json()["reason"]
    assert scrape(broker, "/metrics/detailed?family=queue_coarse_metrics&vhost=none") == {}


def test_sums_are_no_objects(broker: BrokerProcess) -> None:
    until(lambda: one(scrape(broker), "rabbitmq_connections") == 0)
    for samples in (scrape(broker, "/metrics/per-object"), scrape(broker, "/metrics/detailed?family=channel_metrics")):
        assert not [name for name in samples if "_channel_messages_" in name]
    assert one(scrape(broker), "rabbitmq_channel_messages_published_total") >= 0


def test_open_metrics_for_who_reads_it(broker: BrokerProcess) -> None:
    accept = {"accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
    for path in ("/metrics", "/metrics/per-object", "/metrics/detailed?family=queue_metrics"):
        answer = httpx.get(f"http://127.0.0.1:{broker.port('prometheus')}{path}", headers=accept)
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        assert list(parse_open_metrics(answer.text))  # type: ignore[no-untyped-call]


def test_the_listener_for_prometheus_has_nothing_else(broker: BrokerProcess) -> None:
    url = f"http://127.0.0.1:{broker.port('prometheus')}"
    for path in ("/", "/api/overview", "/api/whoami"):
        assert httpx.get(url + path).status_code == 404
    assert httpx.post(f"{url}/metrics").status_code == 405


def test_on_the_page_s_listener_only_who_sees_everything_may_ask(broker: BrokerProcess) -> None:
    url = broker.http_url
    httpx.put(
        f"{url}/api/users/small", auth=("guest", "guest"), json={"password": "pw", "tags": "management"}
    ).raise_for_status()
    httpx.put(
        f"{url}/api/users/watcher", auth=("guest", "guest"), json={"password": "pw", "tags": "monitoring"}
    ).raise_for_status()
    for path in ("/metrics", "/metrics/per-object", "/metrics/detailed?family=queue_metrics", "/api/forebay/stats"):
        assert httpx.get(url + path).status_code == 401
        assert httpx.get(url + path, auth=("small", "pw")).status_code == 401
        assert httpx.get(url + path, auth=("watcher", "pw")).status_code == 200


def test_figures_have_quantiles(broker: BrokerProcess) -> None:
    with open_channel(broker) as channel:
        channel.queue_declare("timed", durable=True)
        channel.basic_publish("", "timed", b"x")
        channel.basic_get("timed", auto_ack=True)
    figures = httpx.get(f"{broker.http_url}/api/forebay/stats", auth=("guest", "guest")).json()
    for name in ("turn", "sync", "wait", "commit", "confirm"):
        total = figures["histograms"][name]["total"]
        assert total["count"] > 0
        assert 0 <= total["p50"] <= total["p90"] <= total["p99"]
    assert figures["disk"]["wal_files"] >= 1
    assert figures["memory"]["octets"] > 0
    assert len(figures["collector"]) == 3


def test_names_may_hold_anything(broker: BrokerProcess) -> None:
    with open_channel(broker) as channel:
        name = 'a "b"\t\\ü'  # RabbitMQ takes line ends out of names
        channel.queue_declare(name)
        assert one(scrape(broker, "/metrics/per-object"), "rabbitmq_queue_messages", "/", name) == 0
        channel.queue_delete(name)
