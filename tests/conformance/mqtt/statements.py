"""Says which normative statements of MQTT a test shows; docs/reference/mqtt-conformance.md is made from it."""

from __future__ import annotations

import pytest

from tools.mqtt_conformance import STATEMENTS, TITLES, V5


def statement(*ids: str, version: int = V5) -> pytest.MarkDecorator:
    """Mark a test as showing these statements of one version; stack two for a test that runs on both.

    ids      literals such as "MQTT-3.3.1-2"; one that the standard does not have fails the collection
    version  V5 or V311
    """
    unknown = [id for id in ids if id not in STATEMENTS[version]]
    if unknown or not ids:
        raise ValueError(f"MQTT {TITLES[version]} has no statement {', '.join(unknown) or 'that is none'}")
    return pytest.mark.mqtt(version, *ids)
