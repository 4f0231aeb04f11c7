"""Clients know what the broker owes them."""

from __future__ import annotations

from random import Random

import pytest

from tests.conformance.mqtt.raw import V5
from tests.simulation.broker import Broker
from tests.simulation.clients.admin import ERROR, REPLY, Administrator
from tests.simulation.clients.mqtt import MqttClient
from tests.simulation.clients.visitor import REFUSED_THERE, Visitor
from tests.simulation.disk import SimDisk
from tests.simulation.model.model import Model
from tests.simulation.model.passwords import hash_of
from tests.simulation.model.promises import Wrong
from tests.simulation.model.vhosts import Vhosts
from tests.stores import TestClock

KIND = {"let in": REPLY, "refused": ERROR}


def visitor(password: str, permitted: bool = True) -> Visitor:
    """Somebody who logs in as a user whose password is `secret`."""
    model = Model()
    model.users.change("ana", ([], hash_of("secret")))
    if permitted:
        model.permissions.change("ana", {"read": ".*"})
    found = Visitor("visitor", model)
    found.user, found.password = "ana", password
    found.taken_in()
    return found


@pytest.mark.parametrize(
    ("password", "answer", "payload"),
    [("secret", "let in", b""), ("hidden", "refused", b"no"), ("hidden", "refused", b"login refused")],
)
def test_a_login_that_ends_as_it_has_to(password: str, answer: str, payload: bytes) -> None:
    visitor(password).answered(KIND[answer], payload)


@pytest.mark.parametrize(
    ("password", "permitted", "answer", "payload"),
    [
        ("secret", True, "refused", b"login refused"),
        ("hidden", True, "let in", b""),
        ("secret", False, "let in", b""),
        ("secret", True, "refused", REFUSED_THERE),
    ],
)
def test_a_login_that_ends_otherwise_is_wrong(password: str, permitted: bool, answer: str, payload: bytes) -> None:
    with pytest.raises(Wrong):
        visitor(password, permitted).answered(KIND[answer], payload)


def test_a_login_of_a_user_that_goes_meanwhile_may_be_refused() -> None:
    who = visitor("secret")
    who.model.users.change("ana", None)
    who.answered(ERROR, b"login refused")


def test_what_is_retained_is_missed_until_it_has_come_or_was_replaced() -> None:
    model = Model()
    client = MqttClient("m0", model, V5, durable=True)
    client.connacked = True
    model.retained.change("kept/a", 7)
    model.retained.change("kept/b", 8, vague=True)
    client.subscribed("kept/+")
    assert client.missing_kept() == {"kept/a": 7}
    model.retained.change("kept/a", 9)
    client.replaced("kept/a")
    assert client.missing_kept() == {}


@pytest.mark.parametrize("is_of_group", [False, True])
def test_a_vhost_is_not_deleted_behind_a_question_about_one_of_its_groups(is_of_group: bool) -> None:
    vhosts = Vhosts(lambda model: [])
    vhosts.begin(Broker(SimDisk(), TestClock()))
    admin = Administrator("admin", vhosts, lambda: None)
    admin.is_in = True
    admin.request({"op": "status"}).is_of_group = is_of_group
    assert admin.delete_vhost(Random(1)).startswith("waits" if is_of_group else "deletes")
