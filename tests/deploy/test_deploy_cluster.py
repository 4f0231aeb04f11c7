"""The three nodes of deploy/: options, addresses, volumes and probes go together, and nodes find each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from forebay.core.option_cluster import ClusterOptions
from forebay.core.options import Options
from forebay.server.config.sources import load_options
from tests.deploy.test_deploy import DEPLOY, container_environment, leave_s, manifests

CLUSTER = "cluster.yaml"
LISTENERS = ("amqp", "mqtt", "mqtt_websocket", "http", "prometheus")


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def assert_told_to_clients(options: Options, within: str) -> None:
    """Every listener for clients is told by an address of the node: where it listens is the same of all."""
    advertised = options.cluster.advertise_clients
    for name in LISTENERS:
        if address := getattr(advertised, name, ""):
            assert address == f"{{node}}{within}:{port_of(getattr(options, name))}"
    assert advertised.amqp and advertised.mqtt and advertised.http, "readers of blocks come by these, redirects by HTTP"


# ---- Compose


def compose() -> dict[str, Any]:
    found = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())
    assert isinstance(found, dict)
    return found


def services(prefix: str) -> dict[str, dict[str, Any]]:
    return {name: each for name, each in compose()["services"].items() if name.startswith(prefix)}


def compose_options(folder: Path) -> Options:
    config = folder / "forebay.yaml"
    config.write_text(compose()["configs"]["forebay"]["content"])
    environment = {**container_environment(), **services("node-")["node-1"]["environment"]}
    return load_options({}, environment, str(config))


def test_compose_s_nodes_find_each_other_and_etcd(tmp_path: Path) -> None:
    options = compose_options(tmp_path)
    cluster = options.cluster
    nodes, etcds = services("node-"), services("etcd-")
    assert (len(nodes), len(etcds)) == (cluster.members, 3)
    for name, node in nodes.items():
        assert node["hostname"] == name, "a node is named like its host"
        assert node["depends_on"].keys() == etcds.keys()
    assert cluster.advertise == f"{{node}}:{port_of(cluster.listen)}"
    assert_told_to_clients(options, "")
    command = etcds["etcd-1"]["command"][-1]
    for name, etcd in etcds.items():
        assert etcd["hostname"] == name and etcd["command"][-1] == command
        assert f"{name}:2379" in cluster.etcd.endpoints and f"{name}=http://{name}:2380" in command
    assert set(options.administrators) <= set(options.users)


def test_compose_s_volumes_ports_secret_and_times_go_together(tmp_path: Path) -> None:
    options = compose_options(tmp_path)
    found = compose()
    taken: list[str] = []
    for name, node in services("node-").items():
        assert node["volumes"] == [f"{name}:{options.data}"]
        assert [each.partition(":")[2] for each in node["ports"]] == ["5672", "1883", "15672"]
        assert int(node["stop_grace_period"].removesuffix("s")) > leave_s(options)
        assert node["command"][-1] == node["configs"][0]["target"]
        taken += [each.partition(":")[0] for each in node["ports"]]
    assert len(taken) == len(set(taken)), "all are on one machine"
    assert set(found["volumes"]) == {*services("node-"), *services("etcd-")}
    (secret,) = found["secrets"]
    assert options.cluster.secret_file == f"/run/secrets/{secret}"
    assert {port_of(getattr(options, name)) for name in ("amqp", "mqtt", "http")} == {5672, 1883, 15672}


# ---- Kubernetes


@pytest.mark.parametrize("place", list(manifests(CLUSTER)), ids="/".join)
def test_the_manifests_are_what_kubernetes_takes(place: tuple[str, str]) -> None:
    kubernetes_validate.validate(manifests(CLUSTER)[place], kubernetes_validate.latest_version(), strict=True)


def stateful_set() -> dict[str, Any]:
    found = manifests(CLUSTER)["StatefulSet", "forebay"]["spec"]
    assert isinstance(found, dict)
    return found


def pod_options(folder: Path) -> Options:
    config = folder / "forebay.yaml"
    config.write_text(manifests(CLUSTER)["ConfigMap", "forebay"]["data"]["forebay.yaml"])
    users = manifests(CLUSTER)["Secret", "forebay"]["stringData"]["users"]
    return load_options({}, {**container_environment(), "FOREBAY_USERS": users}, str(config))


def test_the_pods_are_the_nodes_of_one_cluster(tmp_path: Path) -> None:
    options = pod_options(tmp_path)
    cluster: ClusterOptions = options.cluster
    assert stateful_set()["replicas"] == cluster.members
    assert not cluster.node, "a node is named like its pod"
    assert cluster.advertise == f"{{node}}.{stateful_set()['serviceName']}:{port_of(cluster.listen)}"
    assert_told_to_clients(options, f".{stateful_set()['serviceName']}")
    headless = manifests(CLUSTER)["Service", stateful_set()["serviceName"]]["spec"]
    assert (headless["clusterIP"], headless["publishNotReadyAddresses"]) == ("None", True)
    assert port_of(cluster.listen) in [each["port"] for each in headless["ports"]]
    budget = manifests(CLUSTER)["PodDisruptionBudget", "forebay"]["spec"]
    assert budget["maxUnavailable"] == cluster.members - cluster.quorum()
    assert len(cluster.etcd.endpoints) == 3


def test_the_parts_of_a_pod_go_together(tmp_path: Path) -> None:
    options = pod_options(tmp_path)
    pod = stateful_set()["template"]["spec"]
    (broker,) = pod["containers"]
    assert pod["terminationGracePeriodSeconds"] > leave_s(options)
    ports = {each["name"]: each["containerPort"] for each in broker["ports"]}
    assert ports.pop("nodes") == port_of(options.cluster.listen)
    assert ports == {name.replace("_", "-"): port_of(getattr(options, name)) for name in LISTENERS}
    mounts = {each["name"]: each["mountPath"] for each in broker["volumeMounts"]}
    assert mounts["data"] == options.data
    assert broker["args"][-1] == f"{mounts['config']}/forebay.yaml"
    (secret,) = [each["secret"] for each in pod["volumes"] if each["name"] == "secret"]
    (item,) = secret["items"]
    assert options.cluster.secret_file == f"{mounts['secret']}/{item['path']}"
    assert item["key"] in manifests(CLUSTER)["Secret", secret["secretName"]]["stringData"]
    selector = stateful_set()["selector"]["matchLabels"]
    (apart,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["labelSelector"]["matchLabels"] == selector
    for (kind, _), each in manifests(CLUSTER).items():
        if kind == "Service":
            assert {port["targetPort"] for port in each["spec"]["ports"]} <= {*ports, "nodes"}
            assert each["spec"]["selector"] == selector
    assert broker["readinessProbe"]["httpGet"]["path"] == "/ready"
