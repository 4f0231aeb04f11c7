"""Asks an HTTP server who may log in and what they may do, in the way of RabbitMQ's plugin rabbitmq-auth-backend-http.

    user      username, password, client_id, ip, protocol        allow | allow tag tag ... | deny
    vhost     username, vhost, ip, tags                          allow | deny
    resource  username, vhost, resource, name, permission, tags  allow | deny
    topic     the same, and routing_key                          allow | deny

Whatever else comes, or nothing in time, is a no. Questions are asked on a thread of logins, each once: what comes of it
is remembered for `auth_http_cache_s`, a failure for a second.
"""

from __future__ import annotations

import logging
import time
from typing import Final
from urllib.parse import urlencode

from forebay.core.errors import OptionError
from forebay.core.options import Options
from forebay.core.units import US_PER_S
from forebay.directory.logins.authorizer import Authorizer, Principal, Proof, Undecided
from forebay.directory.logins.login import Backend, LoginContext, LoginRefused, shown
from forebay.directory.users import TAGS
from forebay.server.auth.fetch import fetch, make_client

ALLOW: Final = "allow"
DENY: Final = "deny"
GET: Final = "get"
ANSWER_OCTETS_MAX: Final = 4096
ANSWERS_MAX: Final = 10_000  # cached for one login
FAILURE_S: Final = 1.0
logger = logging.getLogger("forebay")

Fields = tuple[tuple[str, str], ...]


class Callout(Backend):
    """An HTTP server that decides about logins and rights. Raises OptionError if an option it needs is missing."""

    def __init__(self, options: Options) -> None:
        self.urls = {
            "user": options.auth_http_user_url,
            "vhost": options.auth_http_vhost_url,
            "resource": options.auth_http_resource_url,
            "topic": options.auth_http_topic_url,
        }
        for name, url in self.urls.items():
            if not url.startswith(("http://", "https://")):
                raise OptionError(f"auth_http_{name}_url: {url!r} is no address that begins with http:// or https://")
        self.method = options.auth_http_method
        self.cache_s = options.auth_http_cache_s
        self.protocols = frozenset(options.auth_http_protocols)
        self.client = make_client(options.auth_http_ca, options.auth_http_timeout_ms / 1000)

    def takes(self, password: str, place: LoginContext) -> bool:
        return place.protocol in self.protocols

    def prove(self, user: str, password: str, place: LoginContext) -> Principal:
        fields = (
            ("username", user),
            ("password", password),
            ("client_id", place.client_id),
            ("ip", place.address),
            ("protocol", place.protocol),
        )
        words = self.ask("user", fields)
        if words is None:
            raise LoginRefused("the server that knows users does not answer", user)
        if not words or words[0] != ALLOW:
            raise LoginRefused(f"user '{shown(user)}' was refused by the server that knows users", user)
        tags = [word.strip("[],") for word in words[1:]]
        authorizer = CalloutAuthorizer(self, user, tags, place.address)
        until_us = int((time.time() + self.cache_s) * US_PER_S) if self.cache_s else 0
        return Principal(user, authorizer, [tag for tag in tags if tag in TAGS], known_until_us=until_us)

    def ask(self, what: str, fields: Fields) -> list[str] | None:
        """Return the words of the server's answer; None if there is none. May take `auth_http_timeout_ms`."""
        url = self.urls[what]
        coded = urlencode(fields, errors="surrogateescape")
        try:
            if self.method == GET:
                octets = fetch(self.client, "GET", f"{url}?{coded}", octets_max=ANSWER_OCTETS_MAX)
            else:
                octets = fetch(self.client, "POST", url, coded, octets_max=ANSWER_OCTETS_MAX)
        except (OSError, ValueError) as error:
            logger.error("auth_http_%s_url: %s: %s", what, url, str(error)[:200])
            return None
        return octets.decode("utf-8", "replace").lower().split()


class CalloutAuthorizer(Authorizer):
    """The rights of one principal, as the HTTP server answers for them."""

    def __init__(self, callout: Callout, user: str, tags: list[str], address: str) -> None:
        self.callout = callout
        self.user = user
        self.tags = " ".join(tags)
        self.address = address
        self.answers: dict[tuple[str, Fields], tuple[bool, float]] = {}  # yes or no, and until when in seconds

    def may_enter(self, vhost: str) -> bool:
        return self.decided("vhost", (("vhost", vhost), ("ip", self.address)))

    def may(self, vhost: str, right: str, kind: str, name: str) -> bool:
        fields = (("vhost", vhost), ("resource", kind), ("name", name), ("permission", right))
        return self.decided("resource", fields)

    def may_topic(self, vhost: str, right: str, exchange: str, routing_key: str) -> bool:
        place = (("vhost", vhost), ("resource", "topic"), ("name", exchange), ("permission", right))
        return self.decided("topic", (*place, ("routing_key", routing_key)))

    def decided(self, what: str, fields: Fields) -> bool:
        """Return the remembered answer to a question. Raises Undecided if there is none, or if it is too old."""
        found = self.answers.get((what, fields))
        if found is None or found[1] < time.monotonic():
            raise Undecided(Question(self, what, fields))
        return found[0]


class Question(Proof):
    """One question about what a principal may do."""

    waits = True

    def __init__(self, authorizer: CalloutAuthorizer, what: str, fields: Fields) -> None:
        super().__init__(0)
        self.authorizer = authorizer
        self.what = what
        self.fields = fields

    def run(self) -> None:
        authorizer = self.authorizer
        words = authorizer.callout.ask(
            self.what, (("username", authorizer.user), *self.fields, ("tags", authorizer.tags))
        )
        self.right = bool(words) and words is not None and words[0] == ALLOW
        # At least as long as it takes to try again, or nothing would ever be decided.
        kept_s = max(authorizer.callout.cache_s, FAILURE_S) if words is not None else FAILURE_S
        while len(authorizer.answers) >= ANSWERS_MAX:
            authorizer.answers.pop(next(iter(authorizer.answers)), None)
        authorizer.answers[self.what, self.fields] = (self.right, time.monotonic() + kept_s)
