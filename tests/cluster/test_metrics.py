"""Metrics of each node of a cluster are its own, and every name in alerts and dashboard is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.clients import Publisher
from tests.cluster.nodes import ClusterNode, cluster_of
from tests.etcd import Etcd
from tests.waiting import until

DEPLOY = Path(__file__).parents[2] / "deploy"
NAMES = re.compile(r"forebay_cluster_\w+")
Samples = dict[tuple[str, str], float]


def scraped(node: ClusterNode, path: str = "/metrics") -> Samples:
    """The samples of a node by name and by the value of their only label, of the metrics of clusters."""
    answer = httpx.get(f"http://127.0.0.1:{node.port('prometheus')}{path}", timeout=60)
    assert answer.status_code == 200, answer.text
    found: Samples = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found[sample.name, ",".join(sample.labels.values())] = sample.value
    return found


def test_each_node_tells_of_itself(tmp_path: Path, etcd: Etcd) -> None:
    with cluster_of(tmp_path, etcd, prometheus="127.0.0.1:0") as cluster:
        leader, (first, second) = cluster.leader(), cluster.followers()
        publisher = Publisher([first], "work")
        publisher.publish(50)
        publisher.close()
        found = scraped(leader)
        assert found["forebay_cluster_role", "leader"] == found["forebay_cluster_etcd_up", ""] == 1
        assert (found["forebay_cluster_in_sync", ""], found["forebay_cluster_min_in_sync", ""]) == (3, 2)
        assert found["forebay_cluster_answering", ""] == 3
        assert found["forebay_cluster_commit_latency_seconds_count", ""] >= 50
        for each in (first, second):
            assert found["forebay_cluster_follower_in_sync", each.name] == 1
            assert found["forebay_cluster_link_sent_bytes_total", each.name] > 50
        other = scraped(first)
        assert other["forebay_cluster_role", "follower"] == 1 and ("forebay_cluster_role", "leader") not in other
        assert ("rabbitmq_identity_info", "forebay@" + first.name + ",tests,tests") in other
        assert other["rabbitmq_process_resident_memory_bytes", ""] > 0
        assert other["forebay_cluster_link_up", leader.name] == 1
        assert other["forebay_cluster_etcd_duration_seconds_count", ""] > 0
        until(lambda: scraped(first)["forebay_cluster_frame", ""] >= found["forebay_cluster_frame", ""], cluster.told)
        refused = httpx.get(f"http://127.0.0.1:{first.port('prometheus')}/api/nodes", timeout=60)
        assert refused.status_code == 404
        wanted = set(NAMES.findall((DEPLOY / "prometheus" / "alerts.yaml").read_text(encoding="utf-8")))
        panels = json.loads((DEPLOY / "grafana" / "forebay.json").read_text(encoding="utf-8"))["panels"]
        wanted |= {
            name for panel in panels for each in panel.get("targets", []) for name in NAMES.findall(each["expr"])
        }
        assert wanted <= {name for name, _ in found}
        before = found["forebay_cluster_take_overs_total", ""]
        leader.kill9()
        cluster.wait_led_by_another(leader.name)
        taken = until(lambda: ("forebay_cluster_role", "leader") in scraped(cluster.leader()), cluster.told)
        assert taken and scraped(cluster.leader())["forebay_cluster_take_overs_total", ""] == before + 1
        leader.start()
        cluster.wait_in_sync("a", "b", "c")
