"""Tests that a machine cannot run: `left_out.py NAME...` prints, for each program that is not there, what to leave out.

Line by line options of pytest; with `--tell` first, lines for a person.
"""

from __future__ import annotations

import sys

EXAMPLES = "tests/docs/test_examples.py::test_examples_run"
# Program, as tools/prerequisites.sh calls it, and the tests that start it: a file, a test of it, or a page of docs.
NEEDED_BY = {
    "compiler": [
        "tests/cluster/test_faults.py",
        "tests/crash/test_damaged_blocks.py",
        "tests/crash/test_power_loss.py",
        "tests/crash/test_sync_error.py",
        "tests/interop/test_librabbitmq.py",
    ],
    "mosquitto": [
        "tests/interop/test_mosquitto.py",
        "tests/interop/test_sys.py",
        "tests/interop/test_tls.py",
        "docs/reference/listeners.md",
        "docs/tutorials/from-mosquitto.md",
        "docs/reference/mqtt-sessions.md",
        "docs/reference/mqtt-shared.md",
        "docs/reference/mqtt.md",
    ],
    "librabbitmq": ["tests/interop/test_amqp_tools.py", "tests/interop/test_librabbitmq.py"],
    "libcoap": ["tests/interop/coap/test_libcoap.py", "docs/how-to/coap-bridge.md"],
    "curl": [
        "docs/how-to/audit-log.md",
        "docs/how-to/configuration.md",
        "docs/how-to/definitions.md",
        "docs/how-to/deployment.md",
        "docs/how-to/events.md",
        "docs/how-to/explain.md",
        "docs/how-to/kubernetes.md",
        "docs/reference/http-api.md",
        "docs/how-to/http-bridge.md",
        "docs/reference/limits.md",
        "docs/how-to/metrics.md",
        "docs/how-to/security.md",
        "docs/how-to/web-page.md",
    ],
    "node": [
        "docs/reference/amqp10.md",
        "docs/tutorials/first-steps.md",
        "docs/tutorials/iot.md",
        "tests/cluster/test_node_clients.py",
        "tests/docs/test_site.py",
        "tests/interop/amqp10/test_rhea.py",
        "tests/interop/amqp10/test_types.py",
        "tests/interop/servicebus/test_javascript.py",
        "tests/interop/test_amqplib.py",
        "tests/interop/test_mqttjs.py",
        "tests/ui/test_reading.py",
        "tests/ui/test_scripts.py::test_types_of_scripts_hold",
        "tests/ui/test_topology.py",
    ],
    "chromium": [
        "tests/docs/test_site.py",
        "tests/ui/test_access.py",
        "tests/ui/test_changes.py",
        "tests/ui/test_nodes.py",
        "tests/ui/test_reading.py",
        "tests/ui/test_topology.py",
    ],
    "rabbitmqadmin": ["tests/interop/test_rabbitmqadmin.py"],
    "prometheus": ["tests/interop/test_prometheus.py"],
    "namespaces": ["tests/cluster/test_faults.py"],
    "etcd": [
        "docs/tutorials/three-nodes.md",
        "tests/cluster/test_all_at_once.py",
        "tests/cluster/test_coap.py",
        "tests/cluster/test_drain.py",
        "tests/cluster/test_faults.py",
        "tests/cluster/test_force.py",
        "tests/cluster/test_frozen_disk.py",
        "tests/cluster/test_full_disk.py",
        "tests/cluster/test_groups.py",
        "tests/cluster/test_health.py",
        "tests/cluster/test_memory.py",
        "tests/cluster/test_metrics.py",
        "tests/cluster/test_mqtt.py",
        "tests/cluster/test_node_clients.py",
        "tests/cluster/test_preferred_leader.py",
        "tests/cluster/test_rabbitmq_api.py",
        "tests/cluster/test_read_rights.py",
        "tests/cluster/test_reads.py",
        "tests/cluster/test_relay.py",
        "tests/cluster/test_runtime.py",
        "tests/cluster/test_take_over.py",
        "tests/cluster/test_upgrade.py",
        "tests/cluster/test_views.py",
        "tests/cluster/test_waiting.py",
        "tests/cluster/test_what_survives.py",
        "tests/spark/test_followers.py",
        "tests/spark/test_nodes.py",
        "tests/ui/test_nodes.py",
        "tests/unit/server/cluster/register/test_register.py",
        "tests/unit/server/cluster/test_register_faults.py",
    ],
}


def tests(lacking: list[str]) -> list[str]:
    """Tests that need one of these programs, by pytest's names."""
    found = dict.fromkeys(each for program in lacking for each in NEEDED_BY[program])
    return [f"{EXAMPLES}[{each}]" if each.startswith("docs/") else each for each in found]


def options(lacking: list[str]) -> list[str]:
    """Options of pytest that leave these tests out."""
    return [f"--{'deselect' if '::' in each else 'ignore'}={each}" for each in tests(lacking)]


def told(lacking: list[str]) -> list[str]:
    """The same for a person."""
    builds = ["the compiled build"] if "compiler" in lacking else []
    return [f"  {each}" for each in builds + tests(lacking)]


if __name__ == "__main__":
    words = sys.argv[1:]
    print("\n".join(told(words[1:]) if words[:1] == ["--tell"] else options(words)))
