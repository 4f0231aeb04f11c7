"""The settings of one vhost that an administrator may change."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import INVALID, RequestError
from forebay.core.option_names import CLASSIC_TYPE, QUEUE_TYPES

PROTECTED: Final = "protected"
FIELDS: Final = (
    "description",
    "tags",
    "default_queue_type",
    "connections_max",
    "queues_max",
    "octets_max",
    PROTECTED,
)
UNLIMITED: Final = -1
NUMBER_MAX: Final = 2147483647
OCTETS_MAX: Final = 4611686018427387904


@final
class VhostSettings:
    """One vhost's settings.

    description, tags   for people
    default_queue_type  of queues that are declared without one
    connections_max     connections at one time; -1 sets no limit
    queues_max          queues at one time; -1 sets no limit
    octets_max          that all queues hold before their publishers are slowed down; -1 sets no limit
    protected           tools cannot delete it
    """

    def __init__(self) -> None:
        self.description = ""
        self.tags: list[str] = []
        self.default_queue_type = CLASSIC_TYPE
        self.connections_max: i64 = UNLIMITED
        self.queues_max: i64 = UNLIMITED
        self.octets_max: i64 = UNLIMITED
        self.protected = False

    def fields(self) -> dict[str, object]:
        """Return the settings by name."""
        return {
            "description": self.description,
            "tags": list(self.tags),
            "default_queue_type": self.default_queue_type,
            "connections_max": int(self.connections_max),
            "queues_max": int(self.queues_max),
            "octets_max": int(self.octets_max),
            PROTECTED: self.protected,
        }

    def restore(self, fields: dict[str, object]) -> None:
        """Take over what `fields` gave."""
        self.description = str(fields["description"])
        tags = fields["tags"]
        assert isinstance(tags, list)
        self.tags = [str(tag) for tag in tags]
        self.default_queue_type = str(fields["default_queue_type"])
        self.connections_max = number(fields, "connections_max")
        self.queues_max = number(fields, "queues_max")
        self.octets_max = number(fields, "octets_max")
        self.protected = fields[PROTECTED] is True

    def change(self, fields: dict[str, object]) -> None:
        """Set some fields; RequestError(INVALID) names the field and the value, and nothing has changed."""
        self.restore(self.merged(fields))

    def merged(self, fields: dict[str, object]) -> dict[str, object]:
        """The `fields` to be once these are set; RequestError(INVALID) as for `change`."""
        for name, value in fields.items():
            if not is_valid(name, value):
                raise RequestError(INVALID, f"vhost: {name}: {value!r} is not {domain(name)}")
        merged = self.fields()
        merged.update(fields)
        return merged


def number(fields: dict[str, object], name: str) -> int:
    """Return the value of an integer setting."""
    value = fields[name]
    assert isinstance(value, int)
    return value


def is_valid(name: str, value: object) -> bool:
    if name == "description":
        return isinstance(value, str)
    if name == PROTECTED:
        return isinstance(value, bool)
    if name == "tags":
        return isinstance(value, list) and [each for each in value if not isinstance(each, str)] == []
    if name == "default_queue_type":
        return value in QUEUE_TYPES
    if name in FIELDS:
        return isinstance(value, int) and not isinstance(value, bool) and UNLIMITED <= value <= most_of(name)
    return False


def domain(name: str) -> str:
    """Describe the values that a setting may have, for an error message."""
    if name == "description":
        return "a text"
    if name == PROTECTED:
        return "true or false"
    if name == "tags":
        return "a list of texts"
    if name == "default_queue_type":
        return "classic, quorum or stream"
    if name in FIELDS:
        return f"a number from -1, for no limit, to {most_of(name)}"
    return "a setting; known are " + ", ".join(FIELDS)


def most_of(name: str) -> int:
    """Return the highest value that a limit can be set to."""
    return OCTETS_MAX if name == "octets_max" else NUMBER_MAX
