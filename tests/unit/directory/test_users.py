"""Users of a store on real files, with what the configuration says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forebay.core.errors import INVALID, NOT_ALLOWED, NOT_FOUND, PRECONDITION, REFUSED, OptionError, RequestError
from forebay.core.options import make_options
from forebay.directory.logins.authorizer import Principal
from forebay.directory.logins.login import Auth, HashProof, LoginRefused
from forebay.directory.logins.passwords import hash_password
from forebay.directory.users import Users
from tests.node_rig import NodeRig


class Rig(NodeRig):
    """Users that outlive crashes."""

    def __init__(self, folder: Path) -> None:
        self.asked: dict[str, object] = {"users": {"guest": "guest"}}
        super().__init__(folder, None, **self.asked)

    @property
    def users(self) -> Users:
        return self.vhosts.directory.users

    def crash(self, **options: object) -> None:
        """What was noted so far is on disk; then as after `kill -9`, perhaps with another configuration."""
        self.flush()
        self.asked |= options
        self.options = make_options(self.asked)
        super().crash()

    def enters(self, user: str, vhost: bytes = b"/") -> bool:
        try:
            self.users.rights(Principal(user), vhost)
        except RequestError as error:
            if error.reason == NOT_ALLOWED:
                return False
            raise
        return True


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.close()


def given(rig: Rig) -> list[dict[str, object]]:
    """The permissions that somebody was given, beside those that users of the configuration have."""
    return [each for each in rig.users.list_permissions() if not rig.users.user(str(each["user"])).is_free()]


def login(rig: Rig, user: str, password: str) -> tuple[str, bool]:
    """Who this proves to be, and whether that took work; LoginRefused."""
    proof = rig.auth.begin(1, user, password)
    if proof is None:
        return rig.auth.check(user, password, True).user, False
    rig.turn()
    assert rig.prove() is proof
    return rig.auth.conclude(proof, True).user, True


def test_a_user_is_there_after_a_crash_and_gone_after_its_end(rig: Rig) -> None:
    rig.users.add("ada", "secret", ["monitoring"])
    assert not rig.enters("ada")
    rig.users.set_permissions("ada", b"/", "c", "w", "r")
    assert rig.enters("ada")
    rig.crash()
    assert rig.enters("ada")
    assert rig.users.list_users()[0] == {"name": "ada", "tags": ["monitoring"], "configured": False}
    assert rig.users.list_permissions("ada") == [
        {"user": "ada", "vhost": "/", "configure": "c", "write": "w", "read": "r"}
    ]
    assert login(rig, "ada", "secret") == ("ada", True)
    rig.users.delete("ada")
    rig.crash()
    assert not rig.enters("ada")
    assert given(rig) == []
    with pytest.raises(LoginRefused):
        login(rig, "ada", "secret")


def test_a_password_found_right_is_not_worked_out_again_until_it_changes(rig: Rig) -> None:
    rig.users.add("ada", "secret", [])
    assert login(rig, "ada", "secret") == ("ada", True)
    assert login(rig, "ada", "secret") == ("ada", False)
    with pytest.raises(LoginRefused):
        login(rig, "ada", "guess")
    assert login(rig, "ada", "secret") == ("ada", False)
    rig.users.change_password("ada", "other")
    with pytest.raises(LoginRefused) as caught:
        login(rig, "ada", "secret")
    assert caught.value.detail == "wrong password for user 'ada'"
    assert login(rig, "ada", "other") == ("ada", True)


def test_a_password_that_changes_while_it_is_checked_is_wrong(rig: Rig) -> None:
    rig.users.add("ada", "secret", [])
    proof = rig.auth.begin(1, "ada", "secret")
    assert proof is not None
    proof.run()
    assert proof.right
    rig.users.change_password("ada", "other")
    with pytest.raises(LoginRefused):
        rig.auth.conclude(proof, True)


def test_who_does_not_exist_takes_the_same_work(rig: Rig) -> None:
    assert rig.auth.begin(1, "nobody", "x") is None  # nobody has a hash, so nobody takes any
    rig.users.add("ada", "secret", [])
    proof = rig.auth.begin(1, "nobody", "x")
    assert isinstance(proof, HashProof)
    proof.run()
    with pytest.raises(LoginRefused) as caught:
        rig.auth.conclude(proof, True)
    assert caught.value.detail == "user 'nobody' does not exist"


def test_the_same_login_twice_takes_work_once(rig: Rig) -> None:
    rig.users.add("ada", "secret", [])
    first, second = rig.auth.begin(1, "ada", "secret"), rig.auth.begin(2, "ada", "secret")
    assert first is not None
    assert second is not None
    assert not rig.auth.is_at_hand(second)
    first.run()
    rig.auth.conclude(first, True)
    assert rig.auth.is_at_hand(second)
    assert rig.auth.conclude(second, True).user == "ada"


def test_a_user_without_password_cannot_log_in_by_one(rig: Rig) -> None:
    rig.users.add("ada", "", [])
    rig.users.add("bob", "b", [])
    for password in ("", "x"):
        with pytest.raises(LoginRefused):
            login(rig, "ada", password)


def test_a_hash_may_be_given_in_place_of_a_password(rig: Rig) -> None:
    rig.users.add("ada", hash_password("secret", bytes(16)), [])
    assert login(rig, "ada", "secret") == ("ada", True)


def test_users_of_the_configuration_may_do_everything_unless_told(rig: Rig) -> None:
    mine = [{"user": "eve", "vhost": "/", "configure": "", "write": "", "read": "^r"}]
    rig.crash(users={"guest": "g", "eve": "e"}, administrators=["guest"], permissions=mine)
    rig.vhosts.add(b"one")
    assert rig.enters("guest", b"one")
    assert not rig.enters("eve", b"one")
    assert rig.users.rights(Principal("eve"), b"/").grants.permission is not None
    tags = [list(rig.users.tags_of(Principal(name))) for name in ("guest", "eve")]
    assert tags == [["administrator"], []]
    # It is the configuration that says so: without it nothing of it is left.
    rig.crash(users={"guest": "g", "eve": "e"}, permissions=[])
    assert rig.enters("eve", b"one")
    assert given(rig) == []


def test_who_leaves_the_configuration_leaves_no_permissions_behind(rig: Rig) -> None:
    rig.crash(users={"guest": "g", "eve": "e"})
    rig.users.set_permissions("eve", b"/", "c", "w", "r")
    rig.crash(users={"guest": "g"})
    assert given(rig) == []
    assert not rig.enters("eve")
    rig.crash()


def test_a_name_that_a_certificate_vouches_for_may_do_everything_unless_it_is_a_user(rig: Rig) -> None:
    rights = rig.users.rights(Principal("sensor", vouched=True), b"/")
    rights.check_queue("configure", b"anything")
    assert not rig.enters("sensor")
    rig.users.add("sensor", "", [])
    with pytest.raises(RequestError, match="access to vhost '/' refused for user 'sensor'"):
        rig.users.rights(Principal("sensor", vouched=True), b"/")
    with pytest.raises(RequestError, match="configure access to queue 'anything'"):
        rights.check_queue("configure", b"anything")


def test_who_is_deleted_has_no_rights_left_where_it_is_connected(rig: Rig) -> None:
    rig.users.add("ada", "secret", [])
    rig.users.set_permissions("ada", b"/", ".*", ".*", ".*")
    rights = rig.users.rights(Principal("ada"), b"/")
    rights.check_queue("read", b"q")
    rig.users.delete("ada")
    with pytest.raises(RequestError):
        rights.check_queue("read", b"q")


def test_every_change_of_rights_ends_what_was_decided(rig: Rig) -> None:
    for name in ("ada", "bea"):
        rig.users.add(name, "secret", [])
        rig.users.set_permissions(name, b"/", ".*", ".*", ".*")
    grants = rig.users.rights(Principal("ada"), b"/").grants
    others = rig.users.rights(Principal("bea"), b"/").grants.version
    changes: list[Callable[[], None]] = [
        lambda: rig.users.set_permissions("ada", b"/", ".*", "^w", ".*"),
        lambda: rig.users.set_topic_permissions("ada", b"/", b"amq.topic", "w", "r"),
        lambda: rig.users.clear_topic_permissions("ada", b"/"),
        lambda: rig.users.clear_permissions("ada", b"/"),
        lambda: rig.users.set_permissions("ada", b"/", ".*", ".*", ".*"),
        lambda: rig.users.delete("ada"),
    ]
    for change in changes:
        before = grants.version
        change()
        assert not before.is_current and grants.version.is_current
    assert others.is_current


def test_topic_permissions_come_and_go_one_by_one(rig: Rig) -> None:
    rig.users.add("ada", "secret", [])
    for exchange in (b"x", b"y"):
        rig.users.set_topic_permissions("ada", b"/", exchange, "w", "r")
    rig.users.clear_topic_permissions("ada", b"/", b"x")
    rig.crash()
    assert rig.users.list_topic_permissions() == [
        {"user": "ada", "vhost": "/", "exchange": "y", "write": "w", "read": "r"}
    ]
    rig.users.clear_topic_permissions("ada", b"/", b"y")
    rig.users.clear_topic_permissions("ada", b"/")
    rig.crash()
    assert rig.users.list_topic_permissions() == []


def test_the_end_of_a_vhost_ends_what_anybody_may_do_there(rig: Rig) -> None:
    rig.vhosts.add(b"one")
    rig.users.add("ada", "secret", [])
    rig.users.set_permissions("ada", b"one", ".*", ".*", ".*")
    rig.users.set_topic_permissions("ada", b"one", b"x", "w", "r")
    rig.vhosts.delete(b"one")
    assert given(rig) == rig.users.list_topic_permissions() == []
    rig.vhosts.add(b"one")
    assert not rig.enters("ada", b"one")
    rig.crash()
    assert not rig.enters("ada", b"one")


def test_what_cannot_be(rig: Rig) -> None:
    rig.users.add("ada", "secret", [])
    users = rig.users
    refused: list[tuple[Callable[[], None], str, str]] = [
        (lambda: users.add("ada", "x", []), PRECONDITION, "user: 'ada' is there already"),
        (lambda: users.add("", "x", []), INVALID, "user: a name has 1 to 255 characters"),
        (lambda: users.add("n" * 256, "x", []), INVALID, "user: a name has 1 to 255 characters"),
        (lambda: users.add("bob", "x", ["king"]), INVALID, "tags: 'king' is no tag; the tags are administrator"),
        (lambda: users.add("bob", "$argon2id$x", []), INVALID, "is no Argon2id hash"),
        (lambda: users.delete("bob"), NOT_FOUND, "user: 'bob' does not exist"),
        (lambda: users.delete("guest"), REFUSED, "user: 'guest' is of the configuration, and changed there"),
        (lambda: users.change_password("guest", "x"), REFUSED, "is of the configuration"),
        (lambda: users.set_tags("guest", []), REFUSED, "is of the configuration"),
        (lambda: users.set_tags("ada", ["king"]), INVALID, "tags: 'king' is no tag"),
        (lambda: users.set_permissions("bob", b"/", "", "", ""), NOT_FOUND, "user: 'bob' does not exist"),
        (lambda: users.set_permissions("ada", b"zz", "", "", ""), NOT_FOUND, "vhost: 'zz' does not exist"),
        (lambda: users.set_permissions("ada", b"/", "(", "", ""), INVALID, "configure: '\\(' is no regular expression"),
        (lambda: users.set_topic_permissions("ada", b"/", b"x", "", "["), INVALID, "read: '\\[' is no regular"),
    ]
    before = (users.list_users(), users.list_permissions(), users.list_topic_permissions())
    for act, reason, text in refused:
        with pytest.raises(RequestError, match=text) as caught:
            act()
        assert caught.value.reason == reason
    assert (users.list_users(), users.list_permissions(), users.list_topic_permissions()) == before


@pytest.mark.parametrize(
    ("permission", "text"),
    [
        ({"user": "nobody"}, "permissions: there is no user 'nobody'"),
        ({"user": "guest", "read": "("}, "permissions: of"),
    ],
)
def test_a_configuration_that_cannot_be(rig: Rig, permission: dict[str, object], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        rig.crash(permissions=[permission])


def test_a_configured_hash_that_is_none() -> None:
    with pytest.raises(OptionError, match=r"users: of 'ada': password hash: '\$argon2id\$x\.\.\.' is no Argon2id hash"):
        Auth({"ada": "$argon2id$x"})
