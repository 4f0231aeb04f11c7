"""The part of the build that pyproject.toml cannot say: which modules mypyc compiles, and how.

Everything that a message passes through is compiled. `FOREBAY_PURE=1 pip install .` compiles nothing; the same code
then runs interpreted, with the same behaviour.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from setuptools import Extension, setup

COMPILED = [
    "core/stored/*.py",
    "core/message.py",
    "core/units.py",
    "wire/**/*.py",
    "log/block.py",
    "log/block_files.py",
    "log/columns/parts.py",
    "log/frame.py",
    "log/planning.py",
    "log/queue_log.py",
    "log/recovery/recovery.py",
    "log/recovery/replay.py",
    "log/room.py",
    "log/replication/incoming.py",
    "log/replication/outgoing.py",
    "log/replication/uncommitted.py",
    "log/shipment.py",
    "log/store.py",
    "log/stored_log.py",
    "log/wal.py",
    "log/wal_maker.py",
    "filter/*.py",
    "routing/*.py",
    "message/*.py",
    "message/formats/*.py",
    "query/*.py",
    "queue/*.py",
    "queue/*/*.py",
    "replica/*.py",
    "replica/*/*.py",
    "session/**/*.py",
    "broker/catalog/catalog.py",
    "broker/catalog/topology.py",
    "broker/turn.py",
    "broker/vhost.py",
    "broker/contract.py",
    "broker/consuming/block_reads.py",
    "broker/topology_changes.py",
    "broker/catalog/topology_requests.py",
    "broker/consuming/block_reads_contract.py",
    "broker/consuming/consuming_contract.py",
    "broker/mqtt/clients_contract.py",
    "broker/publish/commands.py",
    "broker/consuming/consumers.py",
    "broker/consuming/settling.py",
    "broker/consuming/dispatcher.py",
    "broker/consuming/message_sessions.py",
    "broker/upkeep.py",
    "broker/publish/admission.py",
    "broker/clients.py",
    "broker/consuming/consumer_arguments.py",
    "broker/shared/*.py",
    "broker/vhosts.py",
    "directory/open_vhost.py",
    "directory/permissions.py",
    "directory/vhost_settings.py",
    "broker/internal_log.py",
    "broker/mqtt/retained.py",
    "broker/mqtt/audience.py",
    "broker/mqtt/fanout.py",
    "broker/mqtt/wide_deliveries.py",
    "broker/consuming/shares.py",
    "broker/publish/outcome.py",
    "broker/publish/route.py",
    "broker/publish/router.py",
    "broker/publish/publishing_contract.py",
    "broker/consuming/settling_contract.py",
    "broker/publish/publishing.py",
    "broker/publish/last_value_publish.py",
    "broker/mqtt/sessions.py",
    "broker/mqtt/session_recovery.py",
    "broker/mqtt/client_session.py",
    "broker/mqtt/crowding.py",
    "broker/limits/hold_reasons.py",
    "broker/mqtt/session_quota.py",
    "broker/limits/topology_memory.py",
    "broker/publish/delayed.py",
    "broker/publish/mover.py",
    "broker/publish/deduplication.py",
    "broker/publish/replies.py",
    "broker/publish/headers.py",
    "broker/publish/staging.py",
    "broker/publish/staged_rows.py",
    "broker/dead_letter/dead_letters.py",
    "broker/catalog/declare_rights.py",
    "broker/properties.py",
    "broker/consuming/primary.py",
    "broker/query/*.py",
    "node/commit_gate.py",
    "node/endings.py",
    "node/deliveries.py",
    "node/link.py",
    "node/broker.py",
    "node/group/lone_member.py",
    "node/node.py",
    "node/back_pressure/pressure.py",
    "node/back_pressure/flow_control.py",
    "node/ready.py",
    "node/back_pressure/send_buffers.py",
]
# Of these, what each message, each record of a recovery and each filter passes: compiled for speed. The others are
# compiled for a short build; docs/development.md has the figures.
FAST = [
    "core/stored/*.py",
    "core/message.py",
    "core/units.py",
    "wire/**/*.py",
    "log/block.py",
    "log/block_files.py",
    "log/columns/parts.py",
    "log/frame.py",
    "log/queue_log.py",
    "log/recovery/recovery.py",
    "log/recovery/replay.py",
    "log/replication/incoming.py",
    "log/replication/outgoing.py",
    "log/replication/uncommitted.py",
    "log/shipment.py",
    "log/store.py",
    "log/stored_log.py",
    "log/wal.py",
    "filter/*.py",
    "routing/*.py",
    "message/*.py",
    "message/formats/*.py",
    "query/*.py",
    "queue/*.py",
    "queue/*/*.py",
    "session/session.py",
    "session/traffic.py",
    "session/blocks/*.py",
    "session/shared/*.py",
    "session/amqp091/connection.py",
    "session/amqp091/channel.py",
    "session/amqp091/consume.py",
    "session/amqp091/deliver.py",
    "session/amqp091/publish.py",
    "session/amqp091/tx.py",
    "session/amqp10/connection.py",
    "session/amqp10/endpoint.py",
    "session/amqp10/link.py",
    "session/amqp10/output.py",
    "session/amqp10/windows.py",
    "session/amqp10/incoming/confirms.py",
    "session/amqp10/incoming/receiving.py",
    "session/amqp10/outgoing/deliveries.py",
    "session/amqp10/outgoing/encode.py",
    "session/amqp10/outgoing/sending.py",
    "session/shared/target.py",
    "session/shared/unsettled.py",
    "session/mqtt/connection.py",
    "session/mqtt/outgoing/deliver.py",
    "session/mqtt/outgoing/encode.py",
    "session/mqtt/outgoing/feed.py",
    "session/mqtt/incoming/publish.py",
    "session/mqtt/outgoing/window.py",
    "broker/vhost.py",
    "broker/contract.py",
    "broker/turn.py",
    "broker/publish/commands.py",
    "broker/consuming/consumers.py",
    "broker/consuming/settling.py",
    "broker/consuming/dispatcher.py",
    "broker/upkeep.py",
    "broker/publish/admission.py",
    "broker/clients.py",
    "broker/shared/*.py",
    "broker/mqtt/fanout.py",
    "broker/consuming/shares.py",
    "broker/publish/outcome.py",
    "broker/publish/route.py",
    "broker/publish/router.py",
    "broker/publish/publishing_contract.py",
    "broker/consuming/settling_contract.py",
    "broker/publish/publishing.py",
    "broker/publish/last_value_publish.py",
    "broker/mqtt/sessions.py",
    "broker/mqtt/client_session.py",
    "broker/publish/deduplication.py",
    "broker/dead_letter/dead_letters.py",
    "broker/consuming/primary.py",
    "directory/open_vhost.py",
    "directory/permissions.py",
    "node/deliveries.py",
    "node/link.py",
    "node/broker.py",
    "node/node.py",
    "node/back_pressure/flow_control.py",
    "node/ready.py",
    "node/back_pressure/send_buffers.py",
]
# Modules that a pattern above takes in and that stay interpreted, each with the reason.
INTERPRETED: dict[str, str] = {
    "session/login.py": "values that msgspec encodes; they are made once a connection",
}


def compiled_modules(root: Path, patterns: list[str]) -> list[str]:
    """Paths of the modules to compile that the patterns take in, relative to the project's folder and sorted."""
    package = root / "src" / "forebay"
    found: set[str] = set()
    for pattern in patterns:
        for path in package.glob(pattern):
            name = path.relative_to(package).as_posix()
            if path.name != "__init__.py" and name not in INTERPRETED:
                found.add(path.relative_to(root).as_posix())
    return sorted(found)


def commands() -> dict[str, Any]:
    """The command that compiles; none with FOREBAY_PURE=1."""
    if os.environ.get("FOREBAY_PURE") == "1":
        return {}
    root = Path(__file__).parent
    sys.path.insert(0, str(root))  # pip does not
    from tools.native.extension import LIBRARY, build_command  # noqa: PLC0415  a pure build needs no mypyc

    # setuptools compiles where there is an extension; the command finds out itself which ones there are.
    return {
        "ext_modules": [Extension(LIBRARY, [])],
        "cmdclass": {"build_ext": build_command(compiled_modules(root, COMPILED), set(compiled_modules(root, FAST)))},
    }


if __name__ == "__main__":
    setup(**commands())
