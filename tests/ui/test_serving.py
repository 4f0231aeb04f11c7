"""How the page's files are served."""

from __future__ import annotations

import re

import httpx

from tests.broker_process import BrokerProcess


def test_files_are_kept_by_browsers_and_the_page_is_asked_for_again(broker: BrokerProcess) -> None:
    with httpx.Client(base_url=broker.http_url) as client:
        front = client.get("/")
        assert front.status_code == 200 and front.headers["content-type"].startswith("text/html")
        assert front.headers["cache-control"] == "no-cache"
        known = client.get("/", headers={"If-None-Match": front.headers["etag"]})
        assert known.status_code == 304 and known.content == b""
        links = re.findall(r'(?:href|src)="([^"]+)"', front.text)
        assert len(links) > 20
        for link in links:
            answer = client.get(link)
            assert answer.status_code == 200, link
            assert "immutable" in answer.headers["cache-control"]
        plain = client.get(links[-1], headers={"Accept-Encoding": "identity"})
        packed = client.get(links[-1], headers={"Accept-Encoding": "gzip"})
        assert packed.headers["content-encoding"] == "gzip" and "content-encoding" not in plain.headers
        assert packed.content == plain.content
        head = client.head("/")
        assert head.status_code == 200 and head.content == b""


def test_nothing_but_its_own_files_is_served(broker: BrokerProcess) -> None:
    with httpx.Client(base_url=broker.http_url) as client:
        folder = re.search(r'src="(/ui/[0-9a-f]+)/', client.get("/").text)
        assert folder is not None
        for path in ("/ui/0000000000000000/js/app.js", f"{folder[1]}/index.html", f"{folder[1]}/../../pages.py"):
            assert client.get(path).status_code == 404, path
        assert client.post("/").status_code == 405


def test_browsers_are_told_to_trust_nobody_else(broker: BrokerProcess) -> None:
    headers = httpx.get(broker.http_url).headers
    policy = headers["content-security-policy"]
    for part in ("default-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"):
        assert part in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
