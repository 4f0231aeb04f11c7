"""A Prometheus server asks a broker: what it answers in PromQL is right, and rules and dashboards find their series."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pika
import pytest
import yaml

from tests.admin.clients import mqtt, publish_mqtt
from tests.broker_process import BrokerProcess, free_port, running
from tests.interop.debian import program
from tests.waiting import until

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = DEPLOY / "grafana" / "forebay.json"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
EXAMPLE = DEPLOY / "prometheus" / "prometheus.yaml"
WAIT_S_MAX = 60
CLUSTERED = "forebay_cluster_"  # tests/cluster has those, of a real one


class Prometheus:
    """A server that scrapes one broker every second, with the jobs, families and rules of our example."""

    def __init__(self, folder: Path, broker: BrokerProcess) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{free_port()}"
        config = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(ALERTS)]
        for job in config["scrape_configs"]:
            job["static_configs"] = [{"targets": [f"127.0.0.1:{broker.port('prometheus')}"]}]
        self.config = folder / "prometheus.yml"
        self.config.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
        self.process: subprocess.Popen[bytes] | None = None
        self.client = httpx.Client(base_url=self.url)

    def start(self) -> None:
        command = [
            str(program("prometheus")),
            f"--config.file={self.config}",
            f"--storage.tsdb.path={self.folder / 'tsdb'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            "--log.level=warn",
        ]
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        until(self.is_ready, self.log)
        until(lambda: self.query("up") and all(value == 1 for value in self.query("up")), self.log)

    def stop(self) -> None:
        self.client.close()
        if self.process is not None:
            self.process.terminate()
            self.process.wait(WAIT_S_MAX)

    def ask(self, path: str, **params: str) -> Any:
        answer = self.client.get(path, params=params).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> list[float]:
        """The values of an expression now."""
        found = self.ask("/api/v1/query", query=expression)["result"]
        return [float(each["value"][1]) for each in found]

    def is_ready(self) -> bool:
        try:
            return self.client.get("/-/ready").status_code == 200
        except httpx.TransportError:
            return False  # it starts

    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8")

    def until_answer(self, expression: str, value: float) -> None:
        """Wait for the scrape that brings it."""
        until(lambda: self.query(expression) == [value], lambda: f"{expression} is {self.query(expression)}")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("scraped"), prometheus="127.0.0.1:0") as made:
        yield made


@pytest.fixture(scope="module")
def prometheus(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    server = Prometheus(tmp_path_factory.mktemp("prometheus"), broker)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def use_everything(broker: BrokerProcess) -> None:
    """Let there be something of every kind."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    channel.confirm_delivery()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    channel.queue_declare("letters")
    channel.queue_declare("orders", durable=True, arguments=arguments)
    for _ in range(10):
        channel.basic_publish("", "orders", b"x")
    method, _, _ = channel.basic_get("orders")
    channel.basic_ack(method.delivery_tag)
    method, _, _ = channel.basic_get("orders")
    channel.basic_reject(method.delivery_tag, requeue=False)
    connection.close()
    with mqtt(broker, "listener") as client:
        client.subscribe("weather/#", 1)
        publish_mqtt(broker, "weather/now", "rain", retain=True)


def test_promtool_finds_nothing_wrong(broker: BrokerProcess) -> None:
    use_everything(broker)
    for path in ("/metrics", "/metrics/per-object", "/metrics/detailed?family=queue_metrics&family=group_metrics"):
        text = httpx.get(f"http://127.0.0.1:{broker.port('prometheus')}{path}").content
        checked = subprocess.run(
            [program("promtool"), "check", "metrics"], input=text, capture_output=True, check=False
        )
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, b""), path


def test_prometheus_answers_what_was_done(broker: BrokerProcess, prometheus: Prometheus) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    channel.queue_declare("asked", durable=True)
    published = "sum(rabbitmq_queue_messages_published_total)"
    until(lambda: prometheus.query(published))
    before = prometheus.query(published)[0]
    for _ in range(70):
        channel.basic_publish("", "asked", b"x")
    for _ in range(30):
        channel.basic_get("asked", auto_ack=True)
    prometheus.until_answer('rabbitmq_detailed_queue_messages_ready{queue="asked"}', 40)
    prometheus.until_answer('rabbitmq_detailed_queue_messages_published_total{queue="asked",vhost="/"}', 70)
    prometheus.until_answer('forebay_detailed_group_lag_messages{queue="asked"}', 40)
    prometheus.until_answer(published, before + 70)
    prometheus.until_answer("rabbitmq_connections", 1)
    channel.queue_delete("asked")
    connection.close()
    # Its own series ends; the sum goes on.
    until(lambda: not prometheus.query('rabbitmq_detailed_queue_messages_ready{queue="asked"}'))
    prometheus.until_answer(published, before + 70)
    counters = [name for name in prometheus.ask("/api/v1/label/__name__/values") if name.endswith("_total")]
    assert len(counters) > 50
    fallen = [name for name in counters if max(prometheus.query(f'resets({name}{{job="forebay"}}[1m])'), default=0)]
    assert fallen == []


def expressions() -> list[str]:
    """Every query of the dashboard, with its variables filled in as Grafana does."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    found = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    return [each.replace("$instance", ".*").replace("$vhost", ".*").replace("$__rate_interval", "1m") for each in found]


def test_every_query_of_the_dashboard_has_an_answer(broker: BrokerProcess, prometheus: Prometheus) -> None:
    use_everything(broker)
    asked = [each for each in expressions() if CLUSTERED not in each]
    assert len(asked) > 60
    left = asked

    def all_have_one() -> bool:
        left[:] = [each for each in left if not prometheus.query(each)]
        return not left

    until(all_have_one, lambda: str(left))


def test_the_dashboard_s_variables_find_values(prometheus: Prometheus) -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    for variable in dashboard["templating"]["list"]:
        if variable["type"] != "query":
            continue
        inner = variable["query"]["query"].removeprefix("label_values(").removesuffix(")")
        metric, _, label = inner.rpartition(", ")
        values = prometheus.ask(f"/api/v1/label/{label}/values", **{"match[]": metric})
        assert values, inner


def test_rules_are_right_and_find_their_series(prometheus: Prometheus) -> None:
    checked = subprocess.run([program("promtool"), "check", "rules", ALERTS], capture_output=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tests = ALERTS.with_name("alerts_test.yaml")
    tested = subprocess.run(
        [program("promtool"), "test", "rules", tests], cwd=ALERTS.parent, capture_output=True, check=False
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr

    def rules() -> list[dict[str, Any]]:
        groups = prometheus.ask("/api/v1/rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    until(lambda: rules() and all(rule["health"] == "ok" for rule in rules()))
    names = {metric for rule in rules() for metric in metrics_in(rule["query"])}
    optional = {"forebay_tls_certificate_expiry_timestamp_seconds"}  # no TLS here
    assert len(names) > 10
    names = {name for name in names if not name.startswith(CLUSTERED)}
    assert {name for name in names - optional if not prometheus.query(name)} == set()


def metrics_in(expression: str) -> set[str]:
    """Names of metrics in a query."""
    words = "".join(each if each.isalnum() or each == "_" else " " for each in expression).split()
    return {word for word in words if word.startswith(("rabbitmq_", "forebay_"))}
