"""The links to and from nodes of the broker's own: `$cbs`, and `<entity>/$management` of Azure Service Bus."""

from __future__ import annotations

from forebay.session.amqp10.context import LinkContext
from forebay.session.amqp10.link import LinkEndpoint
from forebay.session.amqp10.management.link_pair import ManagementResponses
from forebay.session.amqp10.output import SessionOutput
from forebay.session.amqp10.servicebus.claims import ClaimsNode
from forebay.session.amqp10.servicebus.entities import MANAGEMENT, entity_queue, parse_entity
from forebay.session.amqp10.servicebus.entity_node import EntityNode
from forebay.session.amqp10.servicebus.node_requests import CLAIMS, answer_request_link, answer_response_link
from forebay.session.amqp10.servicebus.request_link import RequestLink, RequestNode, add_response_link
from forebay.wire.amqp10.performatives import ROLE_SENDER, Attach
from forebay.wire.amqp10.termini import LinkTarget


def node_address(attach: Attach) -> str:
    """Return the address at the broker's end of a link; "" if it has none."""
    if attach.role != ROLE_SENDER:
        address = None if attach.source is None else attach.source.address
    else:
        target = attach.target
        address = target.address if isinstance(target, LinkTarget) else None
    return address if isinstance(address, str) else ""


def is_node_link(context: LinkContext, attach: Attach) -> bool:
    """Return whether a link leads to a node of the broker's own, or comes from one."""
    address = node_address(attach)
    return address == CLAIMS or (context.access is not None and address.lower().endswith(MANAGEMENT))


def attach_node(context: LinkContext, output: SessionOutput, attach: Attach) -> tuple[LinkEndpoint, Attach]:
    """Return a link to or from a node, and the answer to its attach. Raises RequestError."""
    address = node_address(attach)
    node: RequestNode
    path = ""
    if address == CLAIMS:
        node = ClaimsNode(context)
    else:
        entity = parse_entity(address)
        path = entity.path
        assert context.access is not None
        context.access.check(path, context.vhost.now_us())
        node = EntityNode(context, entity_queue(context.vhost, entity))
    if attach.role == ROLE_SENDER:
        answer = answer_request_link(attach, context.message_octets_max)
        link: LinkEndpoint = RequestLink(context, output, attach.name, attach.handle, address, node)
    else:
        answer = answer_response_link(attach)
        target = attach.target
        reply_to = target.address if isinstance(target, LinkTarget) else None
        made = ManagementResponses(
            context, output, attach.name, attach.handle, address, reply_to if isinstance(reply_to, str) else ""
        )
        add_response_link(context, made)
        link = made
    link.entity = path
    return link, answer
