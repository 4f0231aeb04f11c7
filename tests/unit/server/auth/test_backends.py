"""What backends of logins need is asked for before a broker starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.errors import OptionError
from forebay.core.options import make_options
from forebay.server.auth.backends import make_backends

URLS = {f"auth_http_{name}_url": "http://127.0.0.1:1/" for name in ("user", "vhost", "resource", "topic")}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"auth_backends": ["oauth"], "oauth_audience": "x"}, "auth_backends: oauth needs"),
        ({"auth_backends": ["oauth"], "oauth_key": "k" * 32}, "oauth_audience: '' is nobody"),
        ({"auth_backends": ["http"]}, "auth_http_user_url: ''"),
        ({"auth_backends": ["http"], **URLS, "auth_http_topic_url": "file:///etc/passwd"}, "auth_http_topic_url: "),
    ],
)
def test_what_is_missing_is_named(options: dict[str, object], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        make_backends(make_options(options))


@pytest.mark.parametrize("octets", [b"", b"[]", b'{"keys": []}', b'{"keys": [{"kty": "cat"}, 3]}'])
def test_a_file_without_keys_is_named(tmp_path: Path, octets: bytes) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(octets)
    options = {"auth_backends": ["oauth"], "oauth_audience": "x", "oauth_jwks_file": str(path)}
    with pytest.raises(OptionError, match=r"oauth_jwks_file: .* holds no keys"):
        make_backends(make_options(options))


def test_the_order_is_that_of_the_option() -> None:
    options = {"auth_backends": ["http", "internal", "oauth"], "oauth_audience": "x", "oauth_key": "k" * 32, **URLS}
    names = [type(each).__name__ for each in make_backends(make_options(options))]
    assert names == ["Callout", "NoneType", "OAuth"]
