"""What sessions use of a vhost: methods of the vhost itself, and the paths into its parts that are left.

A new name in either list is a decision, to be made here and in ADR 49. What a session needs is a method of `Vhost`,
composed of its parts. No new path into a part is added. A name that no session uses any more leaves its list.
"""

from __future__ import annotations

from pathlib import Path

from tools.house_figures import modules, names_of_vhost

SOURCE = Path(__file__).resolve().parent.parent / "src" / "forebay"

METHODS = """
    abort_batch attach_client bind_exchange bind_queue cancel catch_up check_owner check_subscription close_channel
    close_replies commit_batch consume consume_replies declare_exchange declare_queue defer delete_exchange
    delete_queue detach_client detach_consumer exchange find_exchange find_queue get give_retained has_consumers
    has_queue has_reply_consumer hold_records hurry is_committed is_durable is_paused is_topic_exchange join_body
    last_batch lsn message_sessions_of name note_change note_event now_us purge_queue queue queue_names queue_of
    release_records retained_message retained_numbers search_retained session_closed set_credit set_window stage
    subscribe take_deferred take_early take_room unbind_exchange unbind_queue unsubscribe unwatch watch
"""

PATHS = """
    admission.has_room admission.refuses budgets.filters.pace budgets.filters.pace.note budgets.publishes
    budgets.publishes.start_publish budgets.reading catalog.memory.add catalog.memory.check catalog.queue
    dead_letters.reject deduplication deduplication.remember delayed delayed.cancel delayed.has_places fanout
    fanout.crowding.look fanout.octets fanout.trie.spent fanout.wide.open fanout.wide.ticket
    next_turn.sessions.append publishing publishing.delay publishing.publish publishing.retain replies.append
    router.command_route router.queues_at router.resolve router.route router.route_topic router.routes.dropped
    sessions sessions.append_private sessions.end_turn sessions.keep sessions.log sessions.next_offset
    sessions.note_lost sessions.now_us sessions.operate sessions.pass_by settling settling.ack
    settling.commit_offset settling.expire settling.extend settling.find_lease settling.may_settle settling.nack
    settling.reject store.job_running store.recovered store.rewriting upkeep.delete_queue
"""


def test_sessions_call_the_listed_methods_of_a_vhost_and_no_others() -> None:
    methods, _ = names_of_vhost(dict(modules(SOURCE)))
    assert sorted(methods) == sorted(METHODS.split())


def test_sessions_use_the_listed_paths_into_parts_of_a_vhost_and_no_others() -> None:
    _, paths = names_of_vhost(dict(modules(SOURCE)))
    assert sorted(paths) == sorted(PATHS.split())
