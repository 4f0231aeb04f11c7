"""The view of a cluster's nodes in a real browser, on a real cluster: who leads, who is away, handing over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.cluster.nodes import Cluster, cluster_of
from tests.etcd import etcd_in
from tests.ui.browser import log_in, open_page, show
from tests.waiting import until


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes with the page, all in sync."""
    with etcd_in(tmp_path, 1) as etcd, cluster_of(tmp_path, etcd, http="127.0.0.1:0") as made:
        yield made


def test_nodes_that_go_and_take_over_are_seen(browser: Browser, cluster: Cluster) -> None:
    leader, (first, second) = cluster.leader(), cluster.followers()
    with open_page(browser, leader) as (page, watch):
        log_in(page)
        show(page, "#/nodes", "Nodes")

        def row(name: str) -> str:
            return page.get_by_role("row").filter(has=page.get_by_role("cell", name=name, exact=True)).inner_text()

        assert "leader" in row(leader.name) and "in sync" in row(leader.name)
        for each in (first, second):
            assert "follower" in row(each.name) and "up for" in row(each.name)
        until(lambda: "GiB" in row(first.name), lambda: row(first.name))
        keep(page, "desk")
        page.emulate_media(color_scheme="dark")
        keep(page, "dark")
        page.emulate_media(color_scheme="light")
        first.kill9()
        expect(page.get_by_text(f"Node {first.name} is out of sync")).to_be_visible()
        assert "away" in row(first.name)
        expect(page.locator("a.alarm")).to_have_text("a node is out of sync")
        lines = page.get_by_role("row").filter(has=page.get_by_role("cell", name=first.name, exact=True))
        watch.expected.add(400)
        lines.get_by_role("button", name="Have it lead").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Have it lead").click()
        expect(dialog).to_contain_text(first.name)
        expect(dialog).to_contain_text("in sync")
        keep(page, "refused")
        page.keyboard.press("Escape")
        page.set_viewport_size({"width": 360, "height": 740})
        keep(page, "phone")
        second.kill9()
        expect(page.locator(".banner", has_text="Nothing is confirmed")).to_be_visible()
        expect(page.locator("a.alarm")).to_have_text("nothing is confirmed")
        keep(page, "phone-too-few")
        first.start()
        second.start()
        cluster.wait_in_sync("a", "b", "c")
        expect(page.locator(".banner", has_text="Nothing is confirmed")).to_be_hidden()


def keep(page: object, name: str) -> None:
    """A picture for whoever asks for some by PICTURES, the folder for them."""
    folder = os.environ.get("PICTURES")
    if folder:
        page.screenshot(path=f"{folder}/{name}.png")  # type: ignore[attr-defined]
