"""The options for MQTT sessions, as the parts that keep to them want them."""

from __future__ import annotations

from forebay.core.option_names import DROP, HOLD
from forebay.core.options import Options
from forebay.core.units import US_PER_MS
from forebay.queue.mqueue import HIGHEST, LOWEST, MqueueRules


def session_octets_of(options: Options) -> int:
    """The octets that may wait for one session; who has the oldest give way goes by their number."""
    return 0 if options.mqtt_mqueue_overflow == DROP else options.mqtt_session_octets_max


def mqueue_rules(options: Options) -> MqueueRules:
    """Return the rules for message queues of sessions, as set in the options."""
    limit = options.mqtt_max_mqueue_len if options.mqtt_mqueue_overflow == DROP else 0
    priorities = {topic.encode(): priority for topic, priority in options.mqtt_mqueue_priorities.items()}
    default = HIGHEST if options.mqtt_mqueue_default_priority == "highest" else LOWEST
    rules = MqueueRules(limit, options.mqtt_mqueue_store_qos0, priorities, default)
    rules.qos0_bypass = options.mqtt_mqueue_qos0_bypass
    if options.mqtt_mqueue_overflow == HOLD:
        rules.crowd_at = options.mqtt_max_mqueue_len
    return rules


def hold_us_of(options: Options) -> int:
    """Return how long, in microseconds, a publisher is held back for a client that does not keep up."""
    return 0 if options.mqtt_mqueue_overflow == DROP else options.mqtt_publisher_hold_ms * US_PER_MS
