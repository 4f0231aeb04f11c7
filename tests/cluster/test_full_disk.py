"""A node whose disk is full: the others go on without it, it says so once, and is back as soon as there is room."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.cluster.clients import Cut, Publisher, channel_to, drained
from tests.cluster.nodes import Cluster, ClusterNode, cluster_of
from tests.etcd import Etcd
from tests.waiting import pause, until

DISK = "48m"
# A node that starts gives back what it had reserved of its last file: less than it needs to lead.
SMALL = {"wal_octets_max": 4 << 20, "wal_chunk_octets": 64 << 10, "settle_margin_octets": 1 << 20}
PART = 1 << 16
FOLLOWS_NO_MORE = "so this node cannot follow"
FOLLOWS_AGAIN = "has room again, and this node follows"
NAMES = "abc"
MANY = 5  # a node may begin anew where the machine stands still, and says it again


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[None]:
    """A file system of its own for each node, with very little room."""
    made = [tmp_path / name / "data" for name in NAMES]
    try:
        for folder in made:
            folder.mkdir(parents=True)
            words = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"this test mounts small file systems and needs to be root: {done.stderr}"
        yield
    finally:
        for folder in made:
            subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)


def fill(node: ClusterNode, room: int = 0) -> Path:
    """Leave so much room on a node's disk; the file whose removal gives all back."""
    filler = node.data / "filler"
    if room:
        with filler.open("wb") as file:
            state = os.statvfs(node.data)
            os.posix_fallocate(file.fileno(), 0, state.f_bavail * state.f_frsize - room)
        return filler
    with filler.open("wb", buffering=0) as file:
        for octets in (PART, 1):
            try:
                while True:
                    file.write(bytes(octets))
            except OSError:
                continue
    return filler


@contextmanager
def small_cluster(folder: Path, etcd: Etcd, **cluster: object) -> Iterator[Cluster]:
    with cluster_of(folder, etcd, NAMES, cluster=cluster, disk_free_min_octets=0, **SMALL) as made:
        yield made


def publish_octets(nodes: Sequence[ClusterNode], parts: int) -> None:
    """So many messages that are long, each until it is confirmed."""
    left = parts
    while left:
        with suppress(*Cut):
            channel = channel_to(nodes)
            channel.queue_declare("ballast", durable=True)
            while left:
                channel.basic_publish("", "ballast", bytes(PART))
                left -= 1
            channel.connection.close()


def told(node: ClusterNode, words: str) -> int:
    return node.log_text().count(words)


def all_are_there(cluster: Cluster, publisher: Publisher, count: int) -> None:
    """All nodes are in sync, and the queue has what was confirmed: so many numbers, in their order."""
    cluster.wait_in_sync(*NAMES)
    publisher.close()
    assert list(dict.fromkeys(drained(list(cluster.nodes.values()), "q"))) == list(range(count))


@pytest.mark.usefixtures("disks")
def test_a_follower_with_a_full_disk_waits_for_room(tmp_path: Path, etcd: Etcd) -> None:
    with small_cluster(tmp_path, etcd) as cluster:
        nodes = list(cluster.nodes.values())
        publisher = Publisher(nodes, "q")
        publisher.publish(10)
        full = cluster.followers()[0]
        filler = fill(full)
        until(lambda: told(full, FOLLOWS_NO_MORE), cluster.told, meanwhile=lambda: publish_octets(nodes, 1))
        for _ in range(20):
            publisher.publish(5)
            pause(0.1)
        assert told(full, FOLLOWS_NO_MORE) < MANY
        assert told(full, "frames are not taken") < MANY
        assert full.name not in cluster.record()["in_sync"]
        filler.unlink()
        cluster.wait_in_sync(*NAMES)
        until(lambda: told(full, FOLLOWS_AGAIN) > 0, cluster.told)
        all_are_there(cluster, publisher, publisher.confirmed)


@pytest.mark.usefixtures("disks")
def test_a_node_with_a_full_disk_leaves_it_to_another_to_lead(tmp_path: Path, etcd: Etcd) -> None:
    with small_cluster(tmp_path, etcd, min_in_sync=1) as cluster:
        nodes = list(cluster.nodes.values())
        publisher = Publisher(nodes, "q")
        publisher.publish(10)
        leader, (first, second) = cluster.leader(), sorted(cluster.followers(), key=lambda each: each.name)
        filler = fill(first)  # of these two it would take over first
        leader.kill9()
        publisher.nodes = [first, second]
        publisher.publish(10)
        until(lambda: cluster.record()["leader"] == second.name, cluster.told)
        # What a file gives back once it gets no more frames is room for a few: until that is used up it follows.
        cluster.wait_in_sync(second.name, meanwhile=lambda: publish_octets(publisher.nodes, 1))
        filler.unlink()
        cluster.wait_in_sync(first.name, second.name)
        leader.start()
        all_are_there(cluster, publisher, 20)


@pytest.mark.usefixtures("disks")
def test_the_only_node_left_leads_once_its_disk_has_room(tmp_path: Path, etcd: Etcd) -> None:
    with small_cluster(tmp_path, etcd, min_in_sync=1) as cluster:
        nodes = list(cluster.nodes.values())
        publisher = Publisher(nodes, "q")
        publisher.publish(10)
        last = cluster.followers()[0]
        filler = fill(last)
        for node in nodes:
            if node is not last:
                node.kill9()
        until(lambda: told(last, "this node does not lead until it has room"), cluster.told)
        pause(3)
        assert told(last, "this node does not lead until it has room") < MANY
        filler.unlink()
        until(lambda: cluster.record()["leader"] == last.name, cluster.told)
        publisher.nodes = [last]
        publisher.publish(10)
        for node in nodes:
            if node is not last:
                node.start()
        all_are_there(cluster, publisher, 20)


@pytest.mark.usefixtures("disks")
def test_files_are_copied_once_the_disk_has_room_for_them(tmp_path: Path, etcd: Etcd) -> None:
    with small_cluster(tmp_path, etcd) as cluster:
        nodes = list(cluster.nodes.values())
        publisher = Publisher(nodes, "q")
        publisher.publish(10)
        publish_octets(nodes, 100)
        first = "wal/0000000000000001.wal"
        until(lambda: not any((node.data / first).exists() for node in nodes), cluster.told)
        empty = cluster.followers()[0]
        empty.kill9()
        for each in empty.data.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        filler = fill(empty, 2 << 20)
        empty.start()
        until(lambda: told(empty, "are not copied until there is room"), cluster.told)
        publisher.nodes = [node for node in nodes if node is not empty]
        publisher.publish(10)
        pause(2)
        assert told(empty, "are not copied until there is room") < MANY
        assert told(empty, "begins anew") < MANY
        filler.unlink()
        all_are_there(cluster, publisher, 20)
