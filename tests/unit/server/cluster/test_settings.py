"""The section `cluster` with its files read."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from forebay.core.errors import OptionError
from forebay.core.options import make_options
from forebay.server.cluster.settings import ClusterSettings, make_settings
from forebay.server.config.checks import check_options
from tests.certificates import Certificates

SECRET = "an open secret of nodes"


def settings(**values: object) -> ClusterSettings:
    given = {
        "name": "shop",
        "node": "a",
        "listen": "127.0.0.1:0",
        "etcd": {"endpoints": ["127.0.0.1:2379"]},
        "secret": SECRET,
        **values,
    }
    return make_settings(make_options({"cluster": {key: value for key, value in given.items() if value is not None}}))


def refused(**values: object) -> str:
    with pytest.raises(OptionError) as caught:
        settings(**values)
    return str(caught.value)


def test_secrets_stand_in_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the first line is it\nand not this\n")
    (tmp_path / "password").write_text("pass word \r\n")
    made = settings(
        secret=None,
        secret_file=str(tmp_path / "secret"),
        etcd={"endpoints": ["x:1"], "username": "u", "password_file": str(tmp_path / "password")},
    )
    assert made.secret == b"the first line is it"
    assert made.etcd_password == "pass word "


def test_files_that_hold_no_secret_are_refused(tmp_path: Path) -> None:
    gone, empty, short = (str(tmp_path / name) for name in ("gone", "empty", "short"))
    Path(empty).write_text("\nlater\n")
    Path(short).write_text("fifteen octets.\n")
    assert f"cluster.secret_file: '{gone}' cannot be read" in refused(secret=None, secret_file=gone)
    assert "is empty" in refused(secret=None, secret_file=empty)
    assert refused(secret=None, secret_file=short) == "cluster.secret_file: the secret is shorter than 16 octets"
    assert refused(secret="short") == "cluster.secret: the secret is shorter than 16 octets"
    etcd = {"endpoints": ["x:1"], "username": "u", "password_file": gone}
    assert "cluster.etcd.password_file" in refused(etcd=etcd)


def test_a_node_is_called_as_its_host_unless_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings(node=None).node == socket.gethostname()
    monkeypatch.setattr(socket, "gethostname", lambda: "a host")
    assert "cluster.node: missing, and this host's name 'a host'" in refused(node=None)


def test_others_are_told_where_it_listens_or_what_is_said() -> None:
    assert settings().address("127.0.0.1:4711") == "127.0.0.1:4711"
    assert settings(advertise="{node}.shop:7100").address("127.0.0.1:4711") == "a.shop:7100"
    told = settings(advertise_clients={"amqp": "{node}.shop:5672", "mqtt": "mqtt.shop:1883"})
    assert told.client_address("amqp", "0.0.0.0:5672") == "a.shop:5672"
    assert told.client_address("mqtt", "0.0.0.0:1883") == "mqtt.shop:1883"
    assert (
        told.client_address("http", "127.0.0.1:4711")
        == told.client_address("odd", "127.0.0.1:4711")
        == "127.0.0.1:4711"
    )


def test_keys_begin_with_the_cluster() -> None:
    assert settings().root == "/forebay/shop/"
    assert settings(etcd={"endpoints": ["x:1"], "prefix": "of-ours"}).root == "/of-ours/shop/"


def test_etcd_is_reached_over_tls_where_its_authority_is_given(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    plain = settings(etcd={"endpoints": ["x:1", "[::1]:2"]})
    assert plain.etcd == ("http://x:1", "http://[::1]:2")
    assert plain.etcd_context is None
    secure = settings(etcd={"endpoints": ["x:1"], "ca": str(certificates.ca)})
    assert secure.etcd == ("https://x:1",)
    assert secure.etcd_context is not None
    assert settings(etcd={"endpoints": ["https://x:1"]}).etcd_context is not None


def test_tls_files_that_are_none_are_refused(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    key, other = str(certificates.key), str(certificates.issue("other")[1])
    own, ca, gone = str(certificates.certificate), str(certificates.ca), str(tmp_path / "gone")
    made = settings(tls_certificate=own, tls_key=key, tls_ca=ca)
    assert made.accepting is not None
    assert made.connecting is not None
    assert "cluster.tls_certificate: " in refused(tls_certificate=gone, tls_ca=ca)
    assert "cluster.tls_ca: " in refused(tls_certificate=own, tls_key=key, tls_ca=gone)
    assert "holds no certificate" in refused(tls_certificate=own, tls_key=key, tls_ca=key)
    assert "cluster.tls_key: " in refused(tls_certificate=own, tls_key=other, tls_ca=ca)
    assert "holds no certificate and key" in refused(tls_certificate=own, tls_ca=ca)
    assert "cluster.etcd.ca: " in refused(etcd={"endpoints": ["x:1"], "ca": gone})
    assert "cluster.etcd.key: " in refused(etcd={"endpoints": ["x:1"], "ca": ca, "certificate": own, "key": gone})


def test_a_start_is_refused_with_a_section_whose_files_are_wrong(tmp_path: Path) -> None:
    cluster = {"name": "shop", "listen": "127.0.0.1:1", "etcd": {"endpoints": ["x:1"]}, "secret": SECRET}
    check_options(make_options({"cluster": cluster}))
    del cluster["secret"]
    cluster["secret_file"] = str(tmp_path / "gone")
    with pytest.raises(OptionError, match=re.escape("cluster.secret_file: ")):
        check_options(make_options({"cluster": cluster}))
