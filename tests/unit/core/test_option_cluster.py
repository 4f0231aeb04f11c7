"""The section `cluster` of the options."""

from __future__ import annotations

import pytest

from forebay.core.errors import OptionError
from forebay.core.option_cluster import (
    AdvertiseOptions,
    ClusterOptions,
    EtcdOptions,
    cluster_problems,
    endpoint_of,
)
from forebay.core.option_table import INTEGER, BadOptions, option_fields
from forebay.core.options import make_options

SECRET = "an open secret of nodes"
WHOLE: dict[str, object] = {
    "name": "shop",
    "node": "a",
    "listen": "127.0.0.1:7100",
    "etcd": {"endpoints": ["127.0.0.1:2379"]},
    "secret": SECRET,
}


def refused(**values: object) -> list[tuple[str, str]]:
    """Path and text of all that is wrong with a whole section after these changes."""
    with pytest.raises(BadOptions) as caught:
        make_options({"cluster": {**WHOLE, **values}})
    return [(each.path, each.text) for each in caught.value.problems]


def test_a_broker_stands_alone_without_it() -> None:
    options = make_options({})
    assert not options.cluster.name
    assert cluster_problems(options.cluster) == []


def test_every_option_is_documented() -> None:
    for table in (ClusterOptions, EtcdOptions, AdvertiseOptions):
        for name, spec, _ in option_fields(table):
            assert spec.doc.endswith("."), name
            assert spec.kind != INTEGER or (spec.unit and spec.least < spec.most), name


def test_a_whole_section_is_taken() -> None:
    cluster = make_options({"cluster": WHOLE}).cluster
    assert (cluster.name, cluster.node, cluster.listen) == ("shop", "a", "127.0.0.1:7100")
    assert (cluster.mode, cluster.clients, cluster.members, cluster.quorum()) == ("sync", "forward", 3, 2)
    assert cluster.etcd.endpoints == ["127.0.0.1:2379"]


@pytest.mark.parametrize(
    ("members", "given", "quorum"), [(1, 0, 1), (2, 0, 2), (3, 0, 2), (5, 0, 3), (3, 1, 1), (3, 3, 3)]
)
def test_more_than_half_are_in_sync_unless_it_is_said(members: int, given: int, quorum: int) -> None:
    options = make_options({"cluster": {**WHOLE, "members": members, "min_in_sync": given}})
    assert options.cluster.quorum() == quorum


@pytest.mark.parametrize(
    ("values", "path", "words"),
    [
        ({"name": ""}, "cluster.name", "missing"),
        ({"name": "a/b"}, "cluster.name", "'a/b' is out of range"),
        ({"node": "ä"}, "cluster.node", "'ä' is out of range"),
        ({"node": "n" * 65}, "cluster.node", "up to 64"),
        ({"listen": ""}, "cluster.listen", "missing; give HOST:PORT"),
        ({"listen": "here"}, "cluster.listen", "'here' is not HOST:PORT"),
        ({"listen": "0.0.0.0:7100"}, "cluster.advertise", "'0.0.0.0:7100' is every address"),
        ({"listen": "[::]:7100"}, "cluster.advertise", "'[::]:7100' is every address"),
        ({"advertise": "a"}, "cluster.advertise", "'a' is not HOST:PORT"),
        ({"advertise_clients": {"mqtt": "a:0"}}, "cluster.advertise_clients.mqtt", "port from 1"),
        ({"etcd": {}}, "cluster.etcd.endpoints", "missing"),
        ({"etcd": {"endpoints": ["x"]}}, "cluster.etcd.endpoints[0]", "'x' is not HOST:PORT"),
        ({"etcd": {"endpoints": ["x:1", "ftp://x:1"]}}, "cluster.etcd.endpoints[1]", "'ftp://x:1' must begin"),
        ({"etcd": {"endpoints": ["x:0"]}}, "cluster.etcd.endpoints[0]", "no port from 1"),
        ({"etcd": {"endpoints": ["http://x:1", "https://x:1"]}}, "cluster.etcd.endpoints", "partly http"),
        ({"etcd": {"endpoints": ["http://x:1"], "ca": "ca.pem"}}, "cluster.etcd.ca", "for https"),
        ({"etcd": {"endpoints": ["x:1"], "username": "u"}}, "cluster.etcd.password", "username needs it"),
        ({"etcd": {"endpoints": ["x:1"], "password": "p"}}, "cluster.etcd.username", "password needs it"),
        ({"etcd": {"endpoints": ["x:1"], "key": "k"}}, "cluster.etcd.certificate", "key needs it"),
        (
            {"etcd": {"endpoints": ["x:1"], "username": "u", "password": "p", "password_file": "f"}},
            "cluster.etcd.password_file",
            "one of both",
        ),
        ({"etcd": {"endpoint": ["x:1"]}}, "cluster.etcd.endpoint", "did you mean cluster.etcd.endpoints?"),
        ({"members": 0}, "cluster.members", "1 to 7"),
        ({"members": 8}, "cluster.members", "1 to 7"),
        ({"members": 2, "min_in_sync": 3}, "cluster.min_in_sync", "3 is more than members (2)"),
        ({"mode": "fast"}, "cluster.mode", "sync or async"),
        ({"clients": "drop"}, "cluster.clients", "forward or redirect or reject"),
        ({"secret": ""}, "cluster.secret", "nodes know each other by a secret, or by tls_certificate"),
        ({"secret_file": "s"}, "cluster.secret_file", "'s' is there beside secret"),
        ({"tls_certificate": "c"}, "cluster.tls_ca", "tls_certificate needs it"),
        ({"tls_ca": "c"}, "cluster.tls_certificate", "tls_ca needs it"),
        ({"tls_key": "c"}, "cluster.tls_certificate", "tls_key needs it"),
        ({"lisen": "127.0.0.1:1"}, "cluster.lisen", "did you mean cluster.listen?"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_its_name(values: dict[str, object], path: str, words: str) -> None:
    problems = refused(**values)
    assert [each for each, _ in problems] == [path]
    assert problems[0][1].startswith(f"{path}: ")
    assert words in problems[0][1]


def test_all_that_is_wrong_is_told_at_once() -> None:
    found = [path for path, _ in refused(listen="", secret="", etcd={})]
    assert found == ["cluster.listen", "cluster.etcd.endpoints", "cluster.secret"]


def test_certificates_are_enough_for_nodes_to_know_each_other() -> None:
    given = {**WHOLE, "secret": "", "tls_certificate": "node.pem", "tls_ca": "ca.pem"}
    assert make_options({"cluster": given}).cluster.tls_ca == "ca.pem"


def test_secrets_are_in_no_error() -> None:
    with pytest.raises(OptionError) as caught:
        make_options({"cluster": {**WHOLE, "secret": 17_171_717, "etcd": {"endpoints": [], "password": 17_171_717}}})
    assert "17171717" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "secure", "found"),
    [
        ("etcd:2379", False, (False, "etcd", 2379)),
        ("etcd:2379", True, (True, "etcd", 2379)),
        ("http://etcd:2379/", False, (False, "etcd", 2379)),
        ("https://[::1]:2379", False, (True, "::1", 2379)),
    ],
)
def test_a_member_of_etcd_is_an_address_or_a_url(text: str, secure: bool, found: tuple[bool, str, int]) -> None:
    assert endpoint_of(text, secure) == found
