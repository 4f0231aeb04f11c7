from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.nodes import Cluster, cluster_of
from tests.etcd import Etcd, etcd_in

HERE = Path(__file__).parent
TEST_S_MAX = (
    600  # guards against a hang: that four processes have started may take a minute where others want the cores
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(TEST_S_MAX))


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    """A real etcd of one process."""
    folder = tmp_path / "etcd"
    folder.mkdir()
    with etcd_in(folder, 1) as made:
        yield made


@pytest.fixture
def cluster(tmp_path: Path, etcd: Etcd) -> Iterator[Cluster]:
    """Three nodes, all in sync."""
    with cluster_of(tmp_path, etcd) as made:
        yield made
