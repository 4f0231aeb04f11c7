"""The register in a real etcd: what is seen, and what becomes of changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from forebay.core.options import make_options
from forebay.core.ports import LOST, WON
from forebay.server.cluster.register.etcd import EtcdClient
from forebay.server.cluster.register.register import EtcdRegister
from forebay.server.cluster.settings import make_settings
from tests.certificates import Certificates
from tests.etcd import Cutter, Etcd, etcd_in
from tests.registers import KEY, ROOT, Heard, register_at, url_of
from tests.scenes import run_scene

# ---- the record


def test_a_record_is_made_changed_and_seen_by_all(one: Etcd) -> None:
    async def scene() -> None:
        async with register_at(one.urls) as (a, at_a), register_at(one.urls) as (_, at_b):
            assert at_a.sights == [(0, b"")]
            a.change(1, 0, b"first")
            assert await at_a.settled(1) == WON
            revision = at_a.sights[-1][0]
            assert at_a.order[-2:] == ["seen", WON] or at_a.order[-3:] == ["seen", WON, "seen"]
            await at_b.until(lambda: (revision, b"first") in at_b.sights)
            a.change(2, revision, b"\0second\xff")
            assert await at_a.settled(2) == WON
            await at_b.until(lambda: at_b.sights[-1] == (at_a.sights[-1][0], b"\0second\xff"))
            assert at_b.sights[-1][0] > revision
            assert at_a.reasons == at_b.reasons == []

    run_scene(scene)


def test_a_change_of_an_older_revision_is_lost_and_the_record_that_is_there_is_seen_first(one: Etcd) -> None:
    async def scene() -> None:
        async with (
            register_at(one.urls, watching=False) as (a, at_a),
            register_at(one.urls, watching=False) as (b, at_b),
        ):
            a.change(1, 0, b"of a")
            assert await at_a.settled(1) == WON
            b.change(7, 0, b"of b")
            assert await at_b.settled(7) == LOST
            assert at_b.order == ["seen", LOST]
            assert at_b.sights == [(at_a.sights[0][0], b"of a")]
            assert at_b.outcomes[0][2] == f"the register is at revision {at_a.sights[0][0]}, and not at 0"
            b.change(8, 10**6, b"of b")
            assert await at_b.settled(8) == LOST

    run_scene(scene)


def test_of_changes_at_one_revision_one_wins(one: Etcd) -> None:
    async def scene() -> None:
        async with register_at(one.urls) as (a, at_a), register_at(one.urls) as (b, at_b):
            for number in range(20):
                a.change(number, 0, b"a%d" % number)
                b.change(number, 0, b"b%d" % number)
            for number in range(20):
                await at_a.settled(number)
                await at_b.settled(number)
            won = [each for each in at_a.outcomes + at_b.outcomes if each[1] == WON]
            assert len(won) == 1
            await at_a.until(lambda: at_a.sights[-1] == at_b.sights[-1])

    run_scene(scene)


def test_a_read_tells_the_record_again(one: Etcd) -> None:
    async def scene() -> None:
        async with register_at(one.urls, watching=False) as (a, heard):
            a.read()
            await heard.until(lambda: len(heard.sights) == 1)
            a.change(1, 0, b"value")
            await heard.settled(1)
            a.read()
            await heard.until(lambda: len(heard.sights) == 3)
            assert heard.sights[0] == (0, b"")
            assert heard.sights[1] == heard.sights[2]


def test_a_read_that_is_asked_for_while_one_is_on_its_way_is_made_after_it(one: Etcd) -> None:
    cutter = Cutter(one.endpoints[0])

    async def scene() -> None:
        async with register_at([url_of(cutter)], watching=False) as (a, heard):
            cutter.set(forward=True, backward=False)
            a.read()
            await asyncio.to_thread(cutter.held.wait)
            one.members[0].control("put", KEY, "since then")
            a.read()
            cutter.set(forward=True, backward=True)
            await heard.until(lambda: [value for _, value in heard.sights] == [b"", b"since then"])

    try:
        run_scene(scene)
    finally:
        cutter.close()


def test_a_record_that_somebody_removes_is_seen_to_be_gone(one: Etcd) -> None:
    async def scene() -> None:
        async with register_at(one.urls) as (a, heard):
            a.change(1, 0, b"value")
            await heard.settled(1)
            one.members[0].control("del", KEY)
            await heard.until(lambda: heard.sights[-1] == (0, b""))
            a.change(2, 0, b"anew")
            assert await heard.settled(2) == WON

    run_scene(scene)


def test_keys_of_others_are_none_of_its_business(one: Etcd) -> None:
    async def scene() -> None:
        async with register_at(one.urls) as (a, heard):
            for key in ("/forebay/shopping/register/1", "/forebay/shop0", "/forebay/shop/register/2"):
                one.members[0].control("put", key, "other")
            a.change(1, 0, b"value")
            assert await heard.settled(1) == WON
            assert {value for _, value in heard.sights} == {b"", b"value"}
            assert heard.nodes == {}

    run_scene(scene)


# ---- being there


def test_nodes_are_seen_as_long_as_they_are_there(one: Etcd) -> None:
    async def scene() -> None:
        async with register_at(one.urls) as (a, at_a):
            a.be_present("a", "s1", b"says a")
            await at_a.until(lambda: at_a.nodes == {("a", "s1"): b"says a"})
            async with register_at(one.urls) as (b, at_b):
                b.be_present("b", "s2", b"says b")
                both = {("a", "s1"): b"says a", ("b", "s2"): b"says b"}
                await at_a.until(lambda: at_a.nodes == both)
                await at_b.until(lambda: at_b.nodes == both)
                b.be_present("b", "s2", b"says more")
                await at_a.until(lambda: at_a.nodes["b", "s2"] == b"says more")
            # One that stops says so; nobody has to wait for its lease.
            await at_a.until(lambda: at_a.nodes == {("a", "s1"): b"says a"})

    run_scene(scene)


def test_a_node_that_dies_is_gone_with_its_lease(one: Etcd) -> None:
    async def scene() -> None:
        async with register_at(one.urls) as (_, at_a):
            async with register_at(one.urls) as (b, _):
                b.be_present("b", "s2", b"says b")
                await at_a.until(lambda: ("b", "s2") in at_a.nodes)
                b.lease = "0"  # so that its end says nothing, like a kill
            await at_a.until(lambda: at_a.nodes == {})

    run_scene(scene)


def test_a_node_whose_key_or_lease_is_removed_comes_back(one: Etcd) -> None:
    async def scene() -> None:
        async with register_at(one.urls) as (a, heard):
            a.be_present("a", "s1", b"says a")
            await heard.until(lambda: bool(heard.nodes))
            one.members[0].control("del", f"{ROOT}nodes/a/s1")
            await heard.until(lambda: bool(heard.nodes))
            before = a.lease
            one.members[0].control("lease", "revoke", f"{int(before):x}")
            await heard.until(lambda: bool(heard.nodes) and a.lease != before)

    run_scene(scene)


def test_a_user_logs_in_and_does_so_again_when_the_login_is_over(tmp_path: Path) -> None:
    async def scene() -> None:
        with etcd_in(tmp_path, 1) as etcd:
            control = etcd.members[0].control
            control("user", "add", "root:pw")
            control("user", "grant-role", "root", "root")
            control("auth", "enable")
            heard = Heard()
            client = EtcdClient(etcd.urls, None, 5.0, "root", "pw")
            a = EtcdRegister(client, heard, ROOT, 2)
            a.start()
            await heard.until(lambda: bool(heard.sights))
            a.be_present("a", "s1", b"")
            client.token = "not one of etcd's"
            a.change(1, 0, b"value")
            assert await heard.settled(1) == WON
            etcd.members[0].kill()  # it forgets its tokens
            etcd.restart(etcd.members[0])
            a.change(2, heard.sights[-1][0], b"more")
            await heard.settled(2)
            await heard.until(lambda: bool(heard.nodes))
            etcd.members[0].control("--user", "root:pw", "put", KEY, "by hand")
            await heard.until(lambda: heard.sights[-1][1] == b"by hand")
            await a.stop()

            heard = Heard()
            a = EtcdRegister(EtcdClient(etcd.urls, None, 5.0, "root", "wrong"), heard, ROOT, 2)
            a.start()
            await heard.until(lambda: bool(heard.reasons))
            assert "authentication failed, invalid user ID or password" in heard.reasons[0]
            assert "wrong" not in heard.reasons[0]
            await a.stop()

    run_scene(scene)


def test_tls_with_certificates_on_both_sides(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "tls")
    certificate, key = certificates.issue("etcd", "127.0.0.1")

    async def scene() -> None:
        with etcd_in(tmp_path, 1, (certificate, key, certificates.ca)) as etcd:
            own, own_key = certificates.issue("node")
            settings = make_settings(
                make_options(
                    {
                        "cluster": {
                            "name": "shop",
                            "listen": "127.0.0.1:0",
                            "secret": "an open secret of nodes",
                            "etcd": {
                                "endpoints": etcd.endpoints,
                                "ca": str(certificates.ca),
                                "certificate": str(own),
                                "key": str(own_key),
                            },
                        }
                    }
                )
            )
            heard = Heard()
            a = EtcdRegister(EtcdClient(settings.etcd, settings.etcd_context, 5.0, "", ""), heard, settings.root, 2)
            a.start()
            a.change(1, 0, b"value")
            assert await heard.settled(1) == WON
            etcd.members[0].control("put", KEY, "by hand")
            await heard.until(lambda: heard.sights[-1][1] == b"by hand")
            await a.stop()

            strangers = Certificates(tmp_path / "strangers").client()
            heard = Heard()
            a = EtcdRegister(EtcdClient(settings.etcd, strangers, 5.0, "", ""), heard, ROOT, 2)
            a.start()
            await heard.until(lambda: bool(heard.reasons))
            assert "certificate verify failed" in heard.reasons[0]
            await a.stop()

    run_scene(scene)
