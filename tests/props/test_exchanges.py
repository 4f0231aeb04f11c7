"""Exchanges bound to exchanges, alternates and auto-delete, over restarts, beside a model that is a set of bindings."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.broker.vhost import Vhost
from forebay.core.message import AMQP091, Properties
from forebay.wire.amqp091.properties import encode_properties
from tests.mqtt_rig import MqttRig
from tests.props.test_routing import levels, naive, naive_headers

EXCHANGES = [b"a", b"b", b"c", b"d"]
QUEUES = [b"p", b"q", b"r"]
KINDS = [b"direct", b"fanout", b"topic", b"headers"]
KEYS = [b"k", b"k.l", b"#", b"*"]
HEADERS: list[dict[str, object]] = [{}, {"h": "1"}, {"h": "2"}]

Message = tuple[bytes, dict[str, object]]


class ModelExchange:
    def __init__(self, kind: bytes, durable: bool, auto_delete: bool, alternate: bytes | None) -> None:
        self.kind = kind
        self.durable = durable
        self.auto_delete = auto_delete
        self.alternate = alternate


class Model:
    """What there is. A binding: source, destination, whether that is an exchange, key, headers it asks for."""

    def __init__(self) -> None:
        self.exchanges: dict[bytes, ModelExchange] = {}
        self.queues: dict[bytes, bool] = {}  # name -> durable
        self.bindings: list[tuple[bytes, bytes, bool, bytes, str]] = []

    def remove(self, name: bytes, is_exchange: bool) -> None:
        """An exchange or a queue goes, its bindings with it, and so on."""
        if is_exchange:
            del self.exchanges[name]
        else:
            del self.queues[name]
        self.drop([each for each in self.bindings if name in ends(each, is_exchange)])

    def drop(self, gone: list[tuple[bytes, bytes, bool, bytes, str]]) -> None:
        self.bindings = [each for each in self.bindings if each not in gone]
        for source in dict.fromkeys(each[0] for each in gone):
            exchange = self.exchanges.get(source)
            if exchange is not None and exchange.auto_delete and not any(each[0] == source for each in self.bindings):
                self.remove(source, True)

    def restart(self) -> None:
        """Only what is durable is there again, and it was never told that the rest would go."""
        self.exchanges = {name: each for name, each in self.exchanges.items() if each.durable}
        self.queues = {name: durable for name, durable in self.queues.items() if durable}
        self.bindings = [
            each
            for each in self.bindings
            if each[0] in self.exchanges and each[1] in (self.exchanges if each[2] else self.queues)
        ]

    def fits(self, binding: tuple[bytes, bytes, bool, bytes, str], message: Message) -> bool:
        key, headers = message
        kind = self.exchanges[binding[0]].kind
        if kind == b"direct":
            return binding[3] == key
        if kind == b"topic":
            swapped = binding[3].replace(b".", b"/").replace(b"*", b"+")
            return naive(levels(swapped), levels(key.replace(b".", b"/")))
        return kind == b"fanout" or naive_headers(None, {"h": binding[4]} if binding[4] else {}, headers)

    def reached(self, start: bytes, message: Message) -> set[bytes]:
        """The queues that a message gets to: a step at a time, until nothing new comes."""
        seen = {start}
        queues: set[bytes] = set()
        while True:
            before = (len(seen), len(queues))
            for name in list(seen & set(self.exchanges)):
                fitting = [each for each in self.bindings if each[0] == name and self.fits(each, message)]
                seen |= {each[1] for each in fitting if each[2]}
                queues |= {each[1] for each in fitting if not each[2]}
                alternate = self.exchanges[name].alternate
                if not fitting and alternate is not None:
                    seen.add(alternate)
            if before == (len(seen), len(queues)):
                return queues


def ends(binding: tuple[bytes, bytes, bool, bytes, str], of_exchange: bool) -> list[bytes]:
    """The exchanges, or else the queues, that a binding joins."""
    source, destination, to_exchange = binding[:3]
    if not of_exchange:
        return [] if to_exchange else [destination]
    return [source, destination] if to_exchange else [source]


DECLARATION = st.tuples(st.sampled_from(KINDS), st.booleans(), st.booleans(), st.sampled_from([None, None, *EXCHANGES]))
BINDING = st.one_of(
    *[
        st.tuples(
            st.just(which),
            st.sampled_from(EXCHANGES),
            st.sampled_from(EXCHANGES if to_exchange else QUEUES),
            st.just(to_exchange),
            st.sampled_from(KEYS),
            st.sampled_from(["", "1", "2"]),
        )
        for which in ("bind", "unbind")
        for to_exchange in (False, True)
    ]
)
ACTION = st.one_of(
    BINDING,
    st.builds(lambda name, rest: ("exchange", name, *rest), st.sampled_from(EXCHANGES), DECLARATION),
    st.tuples(st.just("queue"), st.sampled_from(QUEUES), st.booleans()),
    st.tuples(st.just("delete"), st.sampled_from(EXCHANGES), st.just(True)),
    st.tuples(st.just("delete"), st.sampled_from(QUEUES), st.just(False)),
    st.tuples(st.just("restart")),
)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[object, ...]]:
    """All exchanges and queues and some bindings first, so that there is something to change."""
    actions: list[tuple[object, ...]] = []
    actions += [("exchange", name, *draw(DECLARATION)) for name in EXCHANGES]
    actions += [("queue", name, draw(st.booleans())) for name in QUEUES]
    actions += draw(st.lists(BINDING, min_size=8, max_size=20))
    actions += draw(st.lists(ACTION, max_size=12))
    return actions


def act(vhost: Vhost, model: Model, action: tuple[object, ...]) -> None:
    """Do it to both, where it is possible."""
    match action:
        case ("exchange", bytes(name), bytes(kind), bool(durable), bool(auto_delete), bytes() | None as alternate):
            if name not in model.exchanges:
                arguments: dict[str, object] = {} if alternate is None else {"alternate-exchange": alternate.decode()}
                vhost.catalog.declare_exchange(name, kind, durable, auto_delete, False, arguments)
                model.exchanges[name] = ModelExchange(kind, durable, auto_delete, alternate)
        case ("queue", bytes(name), bool(durable)):
            if name not in model.queues:
                vhost.catalog.declare_queue(name, durable, False, False, {}, 1)
                model.queues[name] = durable
        case ("delete", bytes(name), bool(is_exchange)):
            if is_exchange:
                vhost.catalog.delete_exchange(name, False)
            else:
                vhost.upkeep.delete_queue(name, False, False)
            if name in (model.exchanges if is_exchange else model.queues):
                model.remove(name, is_exchange)
        case (
            "bind" | "unbind" as which,
            bytes(source),
            bytes(destination),
            bool(to_exchange),
            bytes(key),
            str(header),
        ):
            if source in model.exchanges and destination in (model.exchanges if to_exchange else model.queues):
                field = "h" if model.exchanges[source].kind == b"headers" else "x-bound-from"  # others take no header
                asked: dict[str, object] = {field: header} if header else {}
                binding = (source, destination, to_exchange, key, header)
                if which == "bind":
                    (vhost.catalog.bind_exchange if to_exchange else vhost.catalog.bind)(
                        destination, source, key, asked
                    )
                    if binding not in model.bindings:
                        model.bindings.append(binding)
                else:
                    (vhost.catalog.unbind_exchange if to_exchange else vhost.catalog.unbind)(
                        destination, source, key, asked
                    )
                    if binding in model.bindings:
                        model.drop([binding])
        case _:
            raise AssertionError(action)


def check(vhost: Vhost, model: Model) -> None:
    built_in = {b"", b"amq.direct", b"amq.fanout", b"amq.topic", b"amq.headers", b"amq.match"}
    assert set(vhost.catalog.bindings.exchanges) - built_in == set(model.exchanges)
    assert len(vhost.catalog.bindings.list_all()) == len(model.bindings)
    assert vhost.catalog.bindings.by_number.keys() == {
        each.number for each in vhost.catalog.bindings.exchanges.values()
    }
    for name in model.exchanges:
        for key in (b"k", b"k.l", b"other"):
            for headers in HEADERS:
                content = Properties()
                content.headers = list(headers.items())
                properties = encode_properties(content)
                route = vhost.router.route(name, key)
                if route.headers_exchange is not None:
                    route = vhost.router.resolve(route, AMQP091, properties)
                found = [queue.name for queue in route.queues]
                assert len(found) == len(set(found))
                assert set(found) == model.reached(name, (key, headers))
                assert set(found) == {
                    each.name for each in vhost.router.route_all(name, [key], AMQP091, properties).queues
                }


@settings(deadline=None)
@given(histories())
def test_a_vhost_is_as_its_model_over_restarts(actions: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rig = MqttRig(Path(folder))
        model = Model()
        for action in actions:
            if action == ("restart",):
                rig.turn()
                rig.sync()
                rig.close()
                rig = MqttRig(Path(folder))
                model.restart()
            else:
                act(rig.vhost, model, action)
        check(rig.vhost, model)
        rig.close()
