"""The register while etcd is away, slow, cut off, compacted, without a leader, older or another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from forebay.core.ports import LOST, UNKNOWN, WON
from forebay.server.cluster.register.etcd import EtcdClient
from forebay.server.cluster.register.register import EtcdRegister
from tests.etcd import Cutter, Etcd, etcd_in
from tests.registers import KEY, ROOT, Heard, register_at, url_of
from tests.scenes import run_scene
from tests.waiting import until_async

# ---- etcd is ill


def test_etcd_may_be_away_for_a_while(tmp_path: Path) -> None:
    async def scene() -> None:
        with etcd_in(tmp_path, 1) as etcd:
            async with register_at(etcd.urls) as (a, heard):
                a.be_present("a", "s1", b"says a")
                a.change(1, 0, b"first")
                await heard.settled(1)
                revision = heard.sights[-1][0]
                etcd.members[0].kill()
                await heard.until(lambda: bool(heard.reasons))
                a.change(2, revision, b"second")
                assert await heard.settled(2) == UNKNOWN
                assert etcd.endpoints[0] in heard.reasons[-1]
                a.read()
                etcd.restart(etcd.members[0])
                await heard.until(lambda: heard.reasons[-1] == "")
                a.change(3, revision, b"second")  # the very same again
                assert await heard.settled(3) == WON
                await heard.until(lambda: ("a", "s1") in heard.nodes)
                # The watch goes on, too.
                etcd.members[0].control("put", KEY, "by hand")
                await heard.until(lambda: heard.sights[-1][1] == b"by hand")

    run_scene(scene)


def test_a_start_waits_for_etcd(tmp_path: Path) -> None:
    async def scene() -> None:
        with etcd_in(tmp_path, 1) as etcd:
            etcd.members[0].kill()
            heard = Heard()
            a = EtcdRegister(EtcdClient(etcd.urls, None, 5.0, "", ""), heard, ROOT, 2)
            a.start()
            a.be_present("a", "s1", b"")
            await heard.until(lambda: bool(heard.reasons))
            etcd.restart(etcd.members[0])
            await heard.until(lambda: heard.sights == [(0, b"")] and bool(heard.nodes))
            await a.stop()

    run_scene(scene)


def test_a_change_whose_answer_is_lost_has_an_unknown_outcome(one: Etcd) -> None:
    cutter = Cutter(one.endpoints[0])

    async def scene() -> None:
        async with register_at([url_of(cutter)], timeout_s=1.0, watching=False) as (a, heard):
            a.read()
            await heard.until(lambda: bool(heard.sights))
            cutter.set(forward=True, backward=False)
            a.change(1, 0, b"made all the same")
            assert await heard.settled(1) == UNKNOWN
            assert "no answer in time" in heard.outcomes[0][2]
            cutter.set(forward=True, backward=True)
            a.change(2, 0, b"made all the same")
            assert await heard.settled(2) == LOST
            assert heard.sights[-1][1] == b"made all the same"

    try:
        run_scene(scene)
    finally:
        cutter.close()


def test_a_change_that_did_not_arrive_is_unknown_and_may_be_sent_again(one: Etcd) -> None:
    cutter = Cutter(one.endpoints[0])

    async def scene() -> None:
        async with register_at([url_of(cutter)], timeout_s=1.0, watching=False) as (a, heard):
            cutter.set(forward=False, backward=True)
            a.change(1, 0, b"value")
            assert await heard.settled(1) == UNKNOWN
            assert one.members[0].control("get", KEY) == ""

    try:
        run_scene(scene)
    finally:
        cutter.close()


def test_an_etcd_that_stands_still_is_away_and_the_same_change_again_settles_it(tmp_path: Path) -> None:
    async def scene() -> None:
        with etcd_in(tmp_path, 1) as etcd:
            async with register_at(etcd.urls, timeout_s=1.0, watching=False) as (a, heard):
                a.read()
                await heard.until(lambda: bool(heard.sights))
                etcd.members[0].hang()
                a.change(1, 0, b"late")
                assert await heard.settled(1) == UNKNOWN
                etcd.members[0].go_on()
                a.change(2, 0, b"late")
                assert await heard.settled(2) in {WON, LOST}
                assert heard.sights[-1][1] == b"late"

    run_scene(scene)


def test_a_watch_of_what_was_compacted_begins_anew(one: Etcd) -> None:
    cutter = Cutter(one.endpoints[0])

    async def scene() -> None:
        async with register_at([url_of(cutter)]) as (a, heard):
            a.change(1, 0, b"first")
            await heard.settled(1)
            # The look at the keys is answered, and its answer arrives only after etcd has forgotten what came after it.
            cutter.set(forward=True, backward=False)
            a.read()
            for number in range(5):
                one.members[0].control("put", KEY, f"unseen {number}")
            revision = one.members[0].control("get", KEY, "-w", "fields").split('"Revision" : ')[1].split("\n")[0]
            one.members[0].control("compaction", revision)
            cutter.set(forward=True, backward=True)
            await heard.until(lambda: heard.sights[-1][1] == b"unseen 4")
            client = a.client
            compacted = [each async for each in taken(client, 2)]
            assert compacted[-1]["compact_revision"] == revision
            assert compacted[-1]["canceled"]
            begun = await a.watch({"header": {"revision": "1"}})
            assert begun
            assert heard.sights[-1][1] == b"unseen 4"
            assert heard.reasons == []

    async def taken(client: EtcdClient, revision: int) -> AsyncIterator[dict[str, object]]:
        watch = client.watch(KEY.encode(), KEY.encode() + b"\0", revision)
        async for message in watch:
            yield message
            if message.get("canceled"):
                await watch.aclose()
                return

    try:
        run_scene(scene)
    finally:
        cutter.close()


# ---- several members


def test_members_that_are_away_are_passed_over(three: Etcd) -> None:
    async def scene() -> None:
        three.members[0].kill()
        async with register_at(three.urls) as (a, heard):
            a.change(1, 0, b"first")
            assert await heard.settled(1) == WON
            assert heard.reasons == []

    run_scene(scene)


def test_a_new_leader_of_etcd_goes_on_with_all(three: Etcd) -> None:
    async def scene() -> None:
        async with register_at(three.urls) as (a, heard):
            a.be_present("a", "s1", b"says a")
            a.change(0, 0, b"0")
            await heard.settled(0)
            leader = await asyncio.to_thread(three.leader)
            leader.kill()
            number = 0

            async def won() -> bool:
                nonlocal number
                number += 1
                a.change(number, heard.sights[-1][0], b"%d" % number)
                return await heard.settled(number) == WON

            await until_async(won)
            revision, value = heard.sights[-1]
            assert int(value) >= 1
            await asyncio.to_thread(three.restart, leader)
            await heard.until(lambda: ("a", "s1") in heard.nodes)
            assert heard.sights[-1] == (revision, value)

    run_scene(scene)


def test_the_watch_does_not_stay_with_a_member_that_has_lost_the_others(three: Etcd) -> None:
    """It would be silent for ever: it asks for a leader."""

    async def scene() -> None:
        async with register_at(three.urls[:1] + three.urls[1:]) as (a, heard):
            for each in three.members[1:]:
                each.kill()
            await heard.until(lambda: bool(heard.reasons) and heard.reasons[-1] != "")
            a.change(1, 0, b"nobody can")
            assert await heard.settled(1) == UNKNOWN
            await asyncio.to_thread(three.restart, three.members[1])
            await heard.until(lambda: heard.reasons[-1] == "")
            three.members[1].control("put", KEY, "by hand")
            await heard.until(lambda: heard.sights[-1][1] == b"by hand")

    run_scene(scene)


# ---- which etcd, and as whom


def test_an_etcd_that_has_lost_what_it_knew_is_not_believed(tmp_path: Path) -> None:
    async def scene() -> None:
        with etcd_in(tmp_path, 1) as etcd:
            async with register_at(etcd.urls) as (a, heard):
                a.change(1, 0, b"first")
                await heard.settled(1)
                etcd.members[0].kill()
                folder = tmp_path / etcd.members[0].name
                folder.rename(tmp_path / "lost")
                etcd.restart(etcd.members[0])
                await heard.until(lambda: "etcd is older than it was" in heard.reasons[-1] if heard.reasons else False)
                a.change(2, 0, b"a second first")
                assert await heard.settled(2) == UNKNOWN
                assert heard.sights[-1][1] == b"first"

    run_scene(scene)


def test_another_etcd_behind_the_same_address_is_not_believed(one: Etcd, tmp_path: Path) -> None:
    cutter = Cutter(one.endpoints[0])

    async def scene() -> None:
        with etcd_in(tmp_path, 1) as other:
            async with register_at([url_of(cutter)], watching=False) as (a, heard):
                a.read()
                await heard.until(lambda: bool(heard.sights))
                host, port = other.endpoints[0].split(":")
                cutter.target = (host, int(port))
                cutter.drop()
                a.read()
                await heard.until(lambda: bool(heard.reasons) and "etcd is another one" in heard.reasons[-1])
                assert len(heard.sights) == 1

    try:
        run_scene(scene)
    finally:
        cutter.close()


def test_what_is_no_etcd_is_said_to_be_none(tmp_path: Path) -> None:
    async def scene() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 5\r\nConnection: close\r\n\r\nsorry")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with register_at([f"http://127.0.0.1:{port}"], watching=False) as (a, heard):
            a.change(1, 0, b"value")
            assert await heard.settled(1) == UNKNOWN
            assert "HTTP status 502, b'sorry' is no answer of etcd" in heard.outcomes[0][2]
        server.close()

    run_scene(scene)
