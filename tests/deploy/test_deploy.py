"""What deploy/ holds says the same as the broker does: options, ports, probes, and times that fit together."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import kubernetes_validate
import pytest
import yaml

from forebay.core.options import Options
from forebay.server.config.sources import ERROR, check, load_options
from tests.broker_process import BrokerProcess
from tests.waiting import until

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
WAIT_S = 60
Start = Callable[..., BrokerProcess]


def leave_s(options: Options) -> float:
    """The longest that a stop takes: the grace, the last writes twice, and the clients."""
    return (options.drain_grace_ms + 2 * options.drain_timeout_ms) / 1000


# ---- systemd


def unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[method-assign,assignment]  # names keep their case
    parser.read_string((DEPLOY / "systemd/forebay.service").read_text())
    return parser["Service"]


def test_the_unit_starts_reloads_and_stops_the_broker_as_it_is_meant_to() -> None:
    service = unit()
    assert service["Type"] == "notify"
    command = shlex.split(service["ExecStart"])
    assert command[:2] == ["/opt/forebay/bin/forebay", "serve"]
    usage = subprocess.run(
        [sys.executable, "-m", "forebay", "serve", "--help"], capture_output=True, text=True, check=True, timeout=WAIT_S
    ).stdout
    for flag in command[2::2]:
        assert flag in usage
    assert "HUP" in service["ExecReload"]
    options = load_options({}, {}, str(DEPLOY / "systemd/forebay.yaml"))
    assert int(service["TimeoutStopSec"]) > leave_s(options)
    assert int(service["LimitNOFILE"]) > options.connections_max
    assert service["RestartPreventExitStatus"] == "2", "the exit code of a mistake in the configuration"


def test_the_unit_s_configuration_is_good() -> None:
    file = str(DEPLOY / "systemd/forebay.yaml")
    assert [each.text for each in check(file) if each.level == ERROR] == []
    assert load_options({}, {}, file).users == {}, "who installs it names the users"


# ---- container


def container() -> dict[str, list[str]]:
    """The instructions of the last stage of the Containerfile, by their names."""
    text = (DEPLOY / "container/Containerfile").read_text().replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in text[text.rindex("\nFROM ") :].splitlines():
        name, _, rest = line.partition(" ")
        if name.isupper():
            found.setdefault(name, []).append(" ".join(rest.split()))
    return found


def container_environment() -> dict[str, str]:
    """The options in the container's environment, for a broker with a file of its own."""
    found = dict(each.split("=", 1) for each in shlex.split(container()["ENV"][0]))
    assert found.pop("FOREBAY_CONFIG") in container()["COPY"][1]
    return found


def test_the_container_s_environment_is_options_and_its_ports_are_listeners() -> None:
    options = load_options({}, container_environment())
    assert options.data == container()["VOLUME"][0]
    listeners = (options.amqp, options.mqtt, options.mqtt_websocket, options.http, options.prometheus)
    assert {each.rpartition(":")[0] for each in listeners} == {"0.0.0.0"}
    assert sorted(container()["EXPOSE"][0].split()) == sorted(each.rpartition(":")[2] for each in listeners)
    assert container()["USER"] == ["10001:10001"]


def test_the_container_has_no_user_until_somebody_names_one() -> None:
    environment = container_environment()
    file = DEPLOY.parent / container()["COPY"][1].split()[0]
    assert load_options({}, environment, str(file)).users == {}
    named = {**environment, "FOREBAY_USERS": '{"ann": "a long password"}'}
    assert load_options({}, named, str(file)).users == {"ann": "a long password"}


def test_the_container_s_health_check_says_whether_the_broker_lives(start_broker: Start) -> None:
    broker = start_broker(http="127.0.0.1:0")
    command = json.loads(container()["HEALTHCHECK"][0].partition("CMD ")[2])
    command = [sys.executable, *(each.replace("15672", str(broker.port("http"))) for each in command[1:])]
    assert subprocess.run(command, check=False, timeout=WAIT_S).returncode == 0
    broker.stop()
    assert subprocess.run(command, check=False, timeout=WAIT_S, capture_output=True).returncode != 0


def test_what_the_container_is_built_from_is_not_ignored() -> None:
    text = (DEPLOY / "container/Containerfile").read_text()
    wanted = {word for line in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE) for word in line.split()}
    lines = (DEPLOY.parent / ".dockerignore").read_text().splitlines()
    assert wanted == {line[1:] for line in lines if line.startswith("!")}


# ---- Kubernetes


def manifests(file: str = "forebay.yaml") -> dict[tuple[str, str], dict[str, Any]]:
    documents = yaml.safe_load_all((DEPLOY / "kubernetes" / file).read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


@pytest.mark.parametrize("place", list(manifests()), ids="/".join)
def test_the_manifests_are_what_kubernetes_takes(place: tuple[str, str]) -> None:
    kubernetes_validate.validate(manifests()[place], kubernetes_validate.latest_version(), strict=True)


def pod() -> dict[str, Any]:
    found = manifests()["StatefulSet", "forebay"]["spec"]["template"]["spec"]
    assert isinstance(found, dict)
    return found


def pod_options(folder: Path) -> Options:
    """The options of the container within the pod."""
    config = folder / "forebay.yaml"
    config.write_text(manifests()["ConfigMap", "forebay"]["data"]["forebay.yaml"])
    (each,) = pod()["containers"][0]["env"]
    key = each["valueFrom"]["secretKeyRef"]["key"]
    environment = {**container_environment(), each["name"]: manifests()["Secret", "forebay"]["stringData"][key]}
    return load_options({}, environment, str(config))


def test_the_pod_s_parts_fit_together(tmp_path: Path) -> None:
    options = pod_options(tmp_path)
    (broker,) = pod()["containers"]
    assert pod()["terminationGracePeriodSeconds"] > leave_s(options)
    assert broker["resources"]["limits"]["memory"] == "2Gi" and options.memory_octets_max < 2 << 30
    ports = {each["name"]: each["containerPort"] for each in broker["ports"]}
    addresses = {name: getattr(options, name.replace("-", "_")) for name in ports}
    assert {name: int(address.rpartition(":")[2]) for name, address in addresses.items()} == ports
    for _, service in manifests().items():
        if service["kind"] == "Service":
            assert {each["targetPort"] for each in service["spec"]["ports"]} <= set(ports)
            assert (
                service["spec"]["selector"] == manifests()["StatefulSet", "forebay"]["spec"]["selector"]["matchLabels"]
            )
    mounts = {each["name"]: each["mountPath"] for each in broker["volumeMounts"]}
    assert mounts["data"] == options.data
    assert broker["args"][-1] == f"{mounts['config']}/forebay.yaml"
    assert set(options.administrators) <= set(options.users)
    assert pod()["securityContext"]["runAsUser"] == 10001


def test_the_probes_ask_what_the_broker_answers_and_readiness_ends_before_the_broker(start_broker: Start) -> None:
    broker = start_broker(http="127.0.0.1:0", drain_grace_ms=10_000_000)
    probes = {
        name: pod()["containers"][0][name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }

    def status(name: str) -> int:
        assert probes[name]["port"] == "http"
        return httpx.get(broker.http_url + probes[name]["path"], timeout=WAIT_S).status_code

    assert {status(name) for name in probes} == {200}, "without a login"
    os.kill(broker.pid, signal.SIGTERM)
    until(lambda: status("readinessProbe") == 503)
    assert status("livenessProbe") == 200
    os.kill(broker.pid, signal.SIGTERM)
    broker.wait()
