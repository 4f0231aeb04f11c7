"""An etcd for the tests of a module, and three for a test that harms them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.etcd import Etcd, etcd_in


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with etcd_in(tmp_path_factory.mktemp("etcd"), 1) as one:
        yield one


@pytest.fixture
def one(shared: Etcd) -> Etcd:
    """One that is well, and has nothing in it."""
    shared.members[0].control("del", "--prefix", "/")
    return shared


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Etcd]:
    with etcd_in(tmp_path, 3) as etcd:
        yield etcd
