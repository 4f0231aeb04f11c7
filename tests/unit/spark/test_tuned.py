"""The settings of a session by its master, and the page that lists them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from forebay.spark.setup.tuned import (
    EVERYWHERE,
    LOCAL,
    MIB,
    OWN_JVM,
    SETTINGS,
    machine_settings,
    memory_octets,
    patient,
    settings_for,
)

PAGE = Path(__file__).parent.parent.parent.parent / "docs" / "how-to" / "spark-setup.md"
WHERE = {EVERYWHERE: "all", OWN_JVM: "all but Connect", LOCAL: "local masters"}


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://127.0.0.1:7077", "spark://127.0.0.1:7077"),
        ("yarn", "yarn"),
    ],
)
def test_a_local_task_is_tried_again_unless_the_master_says_how_often(master: str, expected: str) -> None:
    assert patient(master) == expected


def test_as_many_shuffle_partitions_as_tasks_run_at_once() -> None:
    name = "spark.sql.shuffle.partitions"
    assert machine_settings("local")[name] == "1"
    assert machine_settings("local[3]")[name] == "3"
    assert machine_settings("local[3,2]")[name] == "3"
    assert machine_settings("local[*]")[name] == str(len(os.sched_getaffinity(0)))


def test_the_heap_is_a_share_of_what_the_container_may_have(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    whole = memory_octets(tmp_path / "absent")
    assert whole > 256 * MIB
    limit.write_text("max\n")
    assert memory_octets(limit) == whole
    limit.write_text(f"{100 * MIB}\n")
    assert memory_octets(limit) == 100 * MIB
    heap = machine_settings("local")["spark.driver.memory"]
    assert 1024 <= int(heap.removesuffix("m")) <= 8192


def test_settings_of_a_machine_are_not_for_a_cluster() -> None:
    local = {setting.name for setting in SETTINGS if setting.where == LOCAL}
    assert "spark.sql.streaming.checkpointFileManagerClass" in local
    assert not local & set(settings_for(EVERYWHERE, OWN_JVM))
    assert set(machine_settings("local")) == {setting.name for setting in SETTINGS if not setting.value}


def test_the_page_lists_every_setting_as_it_is() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(spark\.[\w.]+)` \| (.*) \| (.*) \| (.*) \|$", text, re.MULTILINE)
    expected = [
        (each.name, f"`{each.value.rpartition('.')[2]}`" if each.value.startswith("org.") else value, where, each.why)
        for each in SETTINGS
        for value, where in [(f"`{each.value}`" if each.value else "by the machine", WHERE[each.where])]
    ]
    assert rows == expected
