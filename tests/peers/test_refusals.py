"""What is refused: the scope, the code and the text, word by word."""

from __future__ import annotations

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.peers.observe import Refusal, declare, get, put
from tests.peers.peer import Peer
from tests.peers.refusals import Cases, Spoil, check

CASES = Cases()
told = CASES.told


# ---- 404: what is not there


@told("channel", 404, "NOT_FOUND - no queue 'missing' in vhost '{vhost}'")
def passive_declare_of_a_missing_queue(channel: BlockingChannel) -> None:
    channel.queue_declare("missing", passive=True)


@told("channel", 404, "NOT_FOUND - no exchange 'missing' in vhost '{vhost}'")
def passive_declare_of_a_missing_exchange(channel: BlockingChannel) -> None:
    channel.exchange_declare("missing", passive=True)


@told("channel", 404, "NOT_FOUND - no exchange 'missing' in vhost '{vhost}'")
def publish_to_a_missing_exchange(channel: BlockingChannel) -> None:
    channel.basic_publish("missing", "key", b"x")


@told("channel", 404, "NOT_FOUND - no queue 'missing' in vhost '{vhost}'")
def consume_from_a_missing_queue(channel: BlockingChannel) -> None:
    channel.basic_consume("missing", lambda *_: None)


@told("channel", 404, "NOT_FOUND - no queue 'missing' in vhost '{vhost}'")
def get_from_a_missing_queue(channel: BlockingChannel) -> None:
    channel.basic_get("missing")


@told("channel", 404, "NOT_FOUND - no queue 'missing' in vhost '{vhost}'")
def purge_of_a_missing_queue(channel: BlockingChannel) -> None:
    channel.queue_purge("missing")


@told("channel", 404, "NOT_FOUND - no queue 'missing' in vhost '{vhost}'")
def bind_of_a_missing_queue(channel: BlockingChannel) -> None:
    channel.queue_bind("missing", "amq.direct", "key")


@told("channel", 404, "NOT_FOUND - no exchange 'missing' in vhost '{vhost}'")
def bind_to_a_missing_exchange(channel: BlockingChannel) -> None:
    declare(channel)
    channel.queue_bind("q", "missing", "key")


@told("channel", 404, "NOT_FOUND - no exchange 'missing' in vhost '{vhost}'")
def bind_of_a_missing_exchange_to_an_exchange(channel: BlockingChannel) -> None:
    channel.exchange_bind("missing", "amq.direct", "key")


@told("channel", 404, "NOT_FOUND - no previously declared queue")
def consume_of_no_name_before_any_declare(channel: BlockingChannel) -> None:
    channel.basic_consume("", lambda *_: None)


# ---- 403: what is allowed to nobody


@told("channel", 403, "ACCESS_REFUSED - operation not permitted on the default exchange")
def delete_of_the_default_exchange(channel: BlockingChannel) -> None:
    channel.exchange_delete("")


@told("channel", 403, "ACCESS_REFUSED - operation not permitted on the default exchange")
def bind_to_the_default_exchange(channel: BlockingChannel) -> None:
    declare(channel)
    channel.queue_bind("q", "", "key")


@told("channel", 403, "ACCESS_REFUSED - operation not permitted on the default exchange")
def unbind_from_the_default_exchange(channel: BlockingChannel) -> None:
    declare(channel)
    channel.queue_unbind("q", "", "q")


@told("channel", 403, "ACCESS_REFUSED - operation not permitted on the default exchange")
def bind_of_the_default_exchange_to_an_exchange(channel: BlockingChannel) -> None:
    channel.exchange_bind("amq.direct", "", "key")


@told("channel", 403, "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '{vhost}' not allowed")
def delete_of_an_exchange_of_the_system(channel: BlockingChannel) -> None:
    channel.exchange_delete("amq.direct")


@told("channel", 403, "ACCESS_REFUSED - cannot publish to internal exchange 'inner' in vhost '{vhost}'")
def publish_to_an_internal_exchange(channel: BlockingChannel) -> None:
    channel.exchange_declare("inner", "fanout", internal=True)
    channel.basic_publish("inner", "", b"x")


@told("channel", 403, "ACCESS_REFUSED - queue 'q' in vhost '{vhost}' in exclusive use")
def consume_beside_an_exclusive_consumer(channel: BlockingChannel) -> None:
    declare(channel)
    channel.basic_consume("q", lambda *_: None, exclusive=True)
    channel.basic_consume("q", lambda *_: None)


@told("channel", 403, "ACCESS_REFUSED - queue 'q' in vhost '{vhost}' in exclusive use")
def exclusive_consumer_beside_another(channel: BlockingChannel) -> None:
    declare(channel)
    channel.basic_consume("q", lambda *_: None)
    channel.basic_consume("q", lambda *_: None, exclusive=True)


# ---- 405: what is locked


@told(
    "channel",
    405,
    "RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost '{vhost}'. basic.get operations are not "
    "supported by quorum queues with single active consumer",
)
def get_from_a_queue_with_a_single_active_consumer(channel: BlockingChannel) -> None:
    declare(channel, kind="quorum", x_single_active_consumer=True)
    channel.basic_consume("q", lambda *_: None)
    channel.basic_get("q")


# ---- 406: preconditions


@told("channel", 406, "PRECONDITION_FAILED - unknown delivery tag 1")
def ack_of_what_was_never_delivered(channel: BlockingChannel) -> None:
    channel.basic_ack(1)


@told("channel", 406, "PRECONDITION_FAILED - unknown delivery tag 1")
def ack_twice(channel: BlockingChannel) -> None:
    declare(channel)
    put(channel, "q", b"x")
    tag = get(channel, "q").tag
    channel.basic_ack(tag)
    channel.basic_ack(tag)


@told("channel", 406, "PRECONDITION_FAILED - unknown delivery tag 7")
def reject_of_what_was_never_delivered(channel: BlockingChannel) -> None:
    channel.basic_reject(7)


@told("channel", 406, "PRECONDITION_FAILED - unknown delivery tag 7")
def multiple_ack_of_what_was_never_delivered(channel: BlockingChannel) -> None:
    channel.basic_ack(7, multiple=True)


@told("channel", 406, "PRECONDITION_FAILED - unknown delivery tag 1")
def ack_of_what_needs_none(channel: BlockingChannel) -> None:
    declare(channel)
    put(channel, "q", b"x")
    channel.basic_ack(get(channel, "q", ack=True).tag)


@told("channel", 406, "PRECONDITION_FAILED - queue 'q' in vhost '{vhost}' in use")
def delete_if_unused_of_a_used_queue(channel: BlockingChannel) -> None:
    declare(channel)
    channel.basic_consume("q", lambda *_: None)
    channel.queue_delete("q", if_unused=True)


@told("channel", 406, "PRECONDITION_FAILED - queue 'q' in vhost '{vhost}' not empty")
def delete_if_empty_of_a_queue_that_is_not(channel: BlockingChannel) -> None:
    declare(channel)
    put(channel, "q", b"x")
    channel.queue_delete("q", if_empty=True)


@told("channel", 406, "PRECONDITION_FAILED - exchange 'x' in vhost '{vhost}' in use")
def delete_if_unused_of_a_bound_exchange(channel: BlockingChannel) -> None:
    declare(channel)
    channel.exchange_declare("x", "direct")
    channel.queue_bind("q", "x", "key")
    channel.exchange_delete("x", if_unused=True)


@told("channel", 406, "PRECONDITION_FAILED - invalid expiration '-1': {{value_negative,-1}}")
def expiration_below_0(channel: BlockingChannel) -> None:
    declare(channel)
    put(channel, "q", b"x", expiration="-1")


@told("channel", 406, "PRECONDITION_FAILED - invalid expiration 'soon': no_integer")
def expiration_that_is_no_number(channel: BlockingChannel) -> None:
    declare(channel)
    put(channel, "q", b"x", expiration="soon")


@told("channel", 406, "PRECONDITION_FAILED - invalid expiration '10ms': {{leftover_string,\"ms\"}}")
def expiration_with_a_unit(channel: BlockingChannel) -> None:
    declare(channel)
    put(channel, "q", b"x", expiration="10ms")


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - user_id property set to 'somebody' but authenticated user was 'guest'",
)
def user_id_of_somebody_else(channel: BlockingChannel) -> None:
    declare(channel)
    put(channel, "q", b"x", user_id="somebody")


@told("channel", 406, "PRECONDITION_FAILED - message size 16777217 is larger than configured max size 16777216")
def body_that_is_too_long(channel: BlockingChannel) -> None:
    channel.basic_publish("", "q", bytes(16_777_217))


@told("channel", 406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode")
def transactions_on_a_confirming_channel(channel: BlockingChannel) -> None:
    channel.tx_select()


@told("channel", 406, "PRECONDITION_FAILED - channel is not transactional")
def commit_without_select(channel: BlockingChannel) -> None:
    channel.tx_commit()


@told("channel", 406, "PRECONDITION_FAILED - channel is not transactional")
def rollback_without_select(channel: BlockingChannel) -> None:
    channel.tx_rollback()


@told("channel", 406, "PRECONDITION_FAILED - reply consumer cannot acknowledge")
def reply_consumer_that_acknowledges(channel: BlockingChannel) -> None:
    channel.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=False)


@told("channel", 406, "PRECONDITION_FAILED - reply consumer already set")
def second_reply_consumer(channel: BlockingChannel) -> None:
    channel.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
    channel.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)


@told("channel", 406, "PRECONDITION_FAILED - fast reply consumer does not exist")
def reply_to_without_a_reply_consumer(channel: BlockingChannel) -> None:
    declare(channel)
    put(channel, "q", b"x", reply_to="amq.rabbitmq.reply-to")


@told("channel", 406, 'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"CC",longstr}}')
def cc_that_is_no_list(channel: BlockingChannel) -> None:
    declare(channel)
    put(channel, "q", b"x", headers={"CC": "other"})


@told("channel", 406, 'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"BCC",signedint}}')
def bcc_that_is_no_list(channel: BlockingChannel) -> None:
    declare(channel)
    put(channel, "q", b"x", headers={"BCC": 5})


@told(
    "channel",
    406,
    'PRECONDITION_FAILED - Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x',
)
def headers_binding_of_an_unknown_match(channel: BlockingChannel) -> None:
    declare(channel)
    channel.queue_bind("q", "amq.headers", "", {"x-match": "some", "a": 1})


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'q' in vhost '{vhost}': "
    '"expected integer, got longstr"',
)
def consumer_priority_that_is_a_text(channel: BlockingChannel) -> None:
    declare(channel)
    channel.basic_consume("q", lambda *_: None, arguments={"x-priority": "high"})


# ---- 540: what there is not


@told("connection", 540, "NOT_IMPLEMENTED - immediate=true")
def publish_with_immediate(channel: BlockingChannel) -> None:
    channel._impl._send_method(
        pika.spec.Basic.Publish(exchange="", routing_key="q", immediate=True), (pika.BasicProperties(), b"x")
    )


@told("connection", 540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)")
def prefetch_by_octets(channel: BlockingChannel) -> None:
    channel.basic_qos(prefetch_size=10)


@told("connection", 540, "NOT_IMPLEMENTED - active=false")
def flow_off(channel: BlockingChannel) -> None:
    channel.flow(False)


@told("connection", 540, "NOT_IMPLEMENTED - requeue=false")
def recover_without_requeue(channel: BlockingChannel) -> None:
    channel.basic_recover(requeue=False)


@told("connection", 540, "NOT_IMPLEMENTED - basic.get not supported by stream queues queue 's' in vhost '{vhost}'")
def get_from_a_stream(channel: BlockingChannel) -> None:
    declare(channel, "s", "stream")
    channel.basic_get("s")


# ---- 530: what is used already


@told("connection", 530, "NOT_ALLOWED - attempt to reuse consumer tag 'mine'")
def consumer_tag_used_twice(channel: BlockingChannel) -> None:
    declare(channel)
    for _ in range(2):
        channel._impl.basic_consume("q", lambda *_: None, consumer_tag="mine")
        channel._impl._consumers.clear()
        channel.connection.process_data_events(0.2)


@CASES.each()
def test_it_is_refused_in_these_words(peer: Peer, spoil: Spoil, expected: Refusal) -> None:
    check(peer, spoil, expected)
