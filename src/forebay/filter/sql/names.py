"""The names that a selector has for the parts of a message, and what the filter language asks for them."""

from __future__ import annotations

from typing import Final

from forebay.core.units import MS_PER_S
from forebay.filter.nodes import EITHER, Arithmetic, Call, FilterNode, Literal, MessageProperty, Path
from forebay.filter.sql.words import refuse

PRIORITY_DEFAULT: Final = 4
PRIORITY: Final = "priority"
TIMESTAMP: Final = "timestamp"

# Fields of the properties section, and names that JMS has for parts of a message. Those that a filter cannot ask for
# stand here with an empty text, so that they are refused by name.
FIELDS: Final = {
    "message_id": "message_id",
    "user_id": "user_id",
    "to": "",
    "subject": "",
    "reply_to": "reply_to",
    "correlation_id": "correlation_id",
    "content_type": "content_type",
    "content_encoding": "content_encoding",
    "absolute_expiry_time": "",
    "creation_time": TIMESTAMP,
    "group_id": "",
    "group_sequence": "",
    "reply_to_group_id": "",
}
JMS_NAMES: Final = {
    "JMSPriority": PRIORITY,
    "JMSMessageID": "message_id",
    "JMSTimestamp": TIMESTAMP,
    "JMSCorrelationID": "correlation_id",
    "JMSXUserID": "user_id",
}
SECTIONS: Final = {
    "p": "properties",
    "properties": "properties",
    "h": "header",
    "header": "header",
    "a": "application",
    "application_properties": "application",
}


def jms_name(name: str, at: int) -> FilterNode:
    """Return what an identifier of a JMS selector stands for: a field that JMS names, or an application property."""
    known = JMS_NAMES.get(name, "")
    if known:
        return property_node(known)
    if name.startswith("JMS"):
        refuse(at, name, f"a filter cannot ask for this; known are {', '.join(JMS_NAMES)}")
    return Path(name, [])


def sql_name(name: str, at: int) -> FilterNode:
    """Return what an identifier of an SQL filter stands for: a field of the section before the dot."""
    before, dot, field = name.partition(".")
    section = SECTIONS.get(before, "") if dot else "application"
    if not dot:
        field = name
    if section == "application":
        if not field or (dot and "." in field):
            refuse(at, name, "the name of an application property is due here; one with a dot stands in brackets")
        return Path(field, [])
    if section == "header":
        if field != PRIORITY:
            refuse(at, name, "of the header, a filter can ask for 'priority' alone")
        return property_node(PRIORITY)
    if section == "properties":
        return field_node(field, at, name)
    refuse(at, name, "known sections are properties, header and application_properties")


def field_node(field: str, at: int, shown: str) -> FilterNode:
    """Return what asks for a field of the properties section; refuse one that a filter cannot ask for."""
    known = FIELDS.get(field, "")
    if not known:
        askable = ", ".join([name for name, asked in FIELDS.items() if asked])
        refuse(at, shown, f"a filter cannot ask for this field; known are {askable}")
    return property_node(known)


def property_node(name: str) -> FilterNode:
    """Return what asks for a property: the priority has a default, and times are milliseconds of whole seconds."""
    asked = MessageProperty(name)
    if name == PRIORITY:
        return Call("COALESCE", EITHER, [asked, Literal(PRIORITY_DEFAULT)])
    if name == TIMESTAMP:
        return Arithmetic("*", asked, Literal(MS_PER_S))
    return asked
