"""What a queue or an exchange cannot be declared as: the code and the text, word by word."""

from __future__ import annotations

from pika.adapters.blocking_connection import BlockingChannel

from tests.peers.observe import Refusal, declare
from tests.peers.peer import Peer
from tests.peers.refusals import Cases, Spoil, check

CASES = Cases()
told = CASES.told


# ---- declared before, and otherwise


@told(
    "channel",
    405,
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '{vhost}'. It could be originally "
    "declared on another connection or the exclusive property value does not match that of the original declaration.",
)
def redeclare_as_exclusive(channel: BlockingChannel) -> None:
    channel.queue_declare("q", durable=False)
    channel.queue_declare("q", durable=False, exclusive=True)


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '{vhost}': received 'false' but current "
    "is 'true'",
)
def redeclare_as_not_durable(channel: BlockingChannel) -> None:
    declare(channel)
    channel.queue_declare("q", durable=False)


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue 'q' in vhost '{vhost}': received 'true' but "
    "current is 'false'",
)
def redeclare_as_auto_delete(channel: BlockingChannel) -> None:
    declare(channel)
    channel.queue_declare("q", durable=True, auto_delete=True)


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '{vhost}': received '2000' but "
    "current is '1000'",
)
def redeclare_with_another_number(channel: BlockingChannel) -> None:
    declare(channel, x_message_ttl=1000)
    declare(channel, x_message_ttl=2000)


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '{vhost}': received none but "
    "current is the value '1000' of type 'signedint'",
)
def redeclare_without_a_number(channel: BlockingChannel) -> None:
    declare(channel, x_message_ttl=1000)
    declare(channel)


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '{vhost}': received the value "
    "'1000' of type 'signedint' but current is none",
)
def redeclare_with_a_number_more(channel: BlockingChannel) -> None:
    declare(channel)
    declare(channel, x_message_ttl=1000)


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' for queue 'q' in vhost '{vhost}': received none "
    "but current is the value 'amq.fanout' of type 'longstr'",
)
def redeclare_without_a_text(channel: BlockingChannel) -> None:
    declare(channel, x_dead_letter_exchange="amq.fanout")
    declare(channel)


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - inequivalent arg 'x-single-active-consumer' for queue 'q' in vhost '{vhost}': received "
    "'false' but current is 'true'",
)
def redeclare_with_another_boolean(channel: BlockingChannel) -> None:
    declare(channel, x_single_active_consumer=True)
    declare(channel, x_single_active_consumer=False)


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '{vhost}': received 'quorum' but "
    "current is 'classic'",
)
def redeclare_as_another_type(channel: BlockingChannel) -> None:
    declare(channel)
    declare(channel, kind="quorum")


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '{vhost}': received 'fanout' but current "
    "is 'direct'",
)
def redeclare_an_exchange_as_another_type(channel: BlockingChannel) -> None:
    channel.exchange_declare("x", "direct")
    channel.exchange_declare("x", "fanout")


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'x' in vhost '{vhost}': received 'true' but current "
    "is 'false'",
)
def redeclare_an_exchange_as_durable(channel: BlockingChannel) -> None:
    channel.exchange_declare("x", "direct")
    channel.exchange_declare("x", "direct", durable=True)


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for exchange 'x' in vhost '{vhost}': received 'true' but "
    "current is 'false'",
)
def redeclare_an_exchange_as_auto_delete(channel: BlockingChannel) -> None:
    channel.exchange_declare("x", "direct")
    channel.exchange_declare("x", "direct", auto_delete=True)


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - inequivalent arg 'internal' for exchange 'x' in vhost '{vhost}': received 'true' but "
    "current is 'false'",
)
def redeclare_an_exchange_as_internal(channel: BlockingChannel) -> None:
    channel.exchange_declare("x", "direct")
    channel.exchange_declare("x", "direct", internal=True)


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x' in vhost '{vhost}': received the "
    "value 'amq.fanout' of type 'longstr' but current is none",
)
def redeclare_an_exchange_with_an_alternate(channel: BlockingChannel) -> None:
    channel.exchange_declare("x", "direct")
    channel.exchange_declare("x", "direct", arguments={"alternate-exchange": "amq.fanout"})


# ---- declared so for the first time


@told("channel", 403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'")
def declare_of_a_reserved_queue_name(channel: BlockingChannel) -> None:
    channel.queue_declare("amq.mine", durable=True)


@told("channel", 403, "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'")
def declare_of_a_reserved_exchange_name(channel: BlockingChannel) -> None:
    channel.exchange_declare("amq.mine", "direct")


@told("channel", 403, "ACCESS_REFUSED - operation not permitted on the default exchange")
def declare_of_the_default_exchange(channel: BlockingChannel) -> None:
    channel.exchange_declare("", "direct")


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'q' in vhost '{vhost}': {{value_negative,-1}}",
)
def message_ttl_below_0(channel: BlockingChannel) -> None:
    declare(channel, x_message_ttl=-1)


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'q' in vhost '{vhost}': "
    '"expected integer, got longstr"',
)
def message_ttl_that_is_a_text(channel: BlockingChannel) -> None:
    declare(channel, x_message_ttl="1000")


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - invalid arg 'x-expires' for queue 'q' in vhost '{vhost}': {{value_zero,0}}",
)
def expires_at_once(channel: BlockingChannel) -> None:
    declare(channel, x_expires=0)


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - invalid arg 'x-max-length' for queue 'q' in vhost '{vhost}': {{value_negative,-5}}",
)
def max_length_below_0(channel: BlockingChannel) -> None:
    declare(channel, x_max_length=-5)


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - invalid arg 'x-overflow' for queue 'q' in vhost '{vhost}': invalid_overflow",
)
def overflow_that_is_unknown(channel: BlockingChannel) -> None:
    declare(channel, x_overflow="burst")


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - invalid arg 'x-dead-letter-routing-key' for queue 'q' in vhost '{vhost}': "
    "routing_key_but_no_dlx_defined",
)
def dead_letter_key_without_exchange(channel: BlockingChannel) -> None:
    declare(channel, x_dead_letter_routing_key="dead")


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue 'q' in vhost '{vhost}': {{max_value_exceeded,256}}",
)
def max_priority_beyond_an_octet(channel: BlockingChannel) -> None:
    declare(channel, x_max_priority=256)


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - invalid arg 'x-max-age' for queue 'q' in vhost '{vhost}' of queue type rabbit_classic_queue",
)
def stream_argument_for_a_classic_queue(channel: BlockingChannel) -> None:
    declare(channel, x_max_age="1D")


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue 'q' in vhost '{vhost}' of queue type "
    "rabbit_quorum_queue",
)
def priorities_for_a_quorum_queue(channel: BlockingChannel) -> None:
    declare(channel, kind="quorum", x_max_priority=5)


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - invalid arg 'x-overflow' for queue 'q' in vhost '{vhost}' of queue type rabbit_stream_queue",
)
def overflow_for_a_stream(channel: BlockingChannel) -> None:
    declare(channel, kind="stream", x_overflow="drop-head")


@told("channel", 406, "PRECONDITION_FAILED - invalid property 'non-durable' for queue 'q' in vhost '{vhost}'")
def quorum_queue_that_is_not_durable(channel: BlockingChannel) -> None:
    channel.queue_declare("q", arguments={"x-queue-type": "quorum"})


@told("channel", 406, "PRECONDITION_FAILED - invalid property 'exclusive-owner' for queue 'q' in vhost '{vhost}'")
def quorum_queue_that_is_exclusive(channel: BlockingChannel) -> None:
    channel.queue_declare("q", durable=True, exclusive=True, arguments={"x-queue-type": "quorum"})


@told("channel", 406, "PRECONDITION_FAILED - invalid property 'auto-delete' for queue 'q' in vhost '{vhost}'")
def quorum_queue_that_is_auto_delete(channel: BlockingChannel) -> None:
    channel.queue_declare("q", durable=True, auto_delete=True, arguments={"x-queue-type": "quorum"})


@told("channel", 406, "PRECONDITION_FAILED - invalid property 'non-durable' for queue 's' in vhost '{vhost}'")
def stream_that_is_not_durable(channel: BlockingChannel) -> None:
    channel.queue_declare("s", arguments={"x-queue-type": "stream"})


@told("channel", 406, "PRECONDITION_FAILED - invalid property 'exclusive-owner' for queue 's' in vhost '{vhost}'")
def stream_that_is_exclusive(channel: BlockingChannel) -> None:
    channel.queue_declare("s", durable=True, exclusive=True, arguments={"x-queue-type": "stream"})


@told(
    "channel",
    406,
    "PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue 'q' in vhost '{vhost}': \"unsupported queue type "
    "'heap'\"",
)
def queue_type_that_is_unknown(channel: BlockingChannel) -> None:
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": "heap"})


@told("channel", 406, "PRECONDITION_FAILED - unknown exchange type 'x-magic'")
def exchange_type_that_is_unknown(channel: BlockingChannel) -> None:
    channel.exchange_declare("x", "x-magic")


@CASES.each()
def test_it_is_refused_in_these_words(peer: Peer, spoil: Spoil, expected: Refusal) -> None:
    check(peer, spoil, expected)
