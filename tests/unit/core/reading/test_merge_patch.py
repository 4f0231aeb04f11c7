"""JSON merge patches: the examples of RFC 7396, and what is too deep."""

from __future__ import annotations

import json

import pytest

from forebay.core.reading.merge_patch import DEPTH_MAX, merge_patch

EXAMPLES = [
    ('{"a":"b"}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'),
    ('{"a":"b"}', '{"a":null}', "{}"),
    ('{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'),
    ('{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'),
    ('{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'),
    ('{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'),
    ('["a","b"]', '["c","d"]', '["c","d"]'),
    ('{"a":"b"}', '["c"]', '["c"]'),
    ('{"a":"foo"}', "null", "null"),
    ('{"a":"foo"}', '"bar"', '"bar"'),
    ('{"e":null}', '{"a":1}', '{"e":null,"a":1}'),
    ("[1,2]", '{"a":"b","c":null}', '{"a":"b"}'),
    ("{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'),
]


@pytest.mark.parametrize(("target", "patch", "merged"), EXAMPLES)
def test_the_examples_of_the_rfc(target: str, patch: str, merged: str) -> None:
    before, change = json.loads(target), json.loads(patch)
    assert merge_patch(before, change) == json.loads(merged)
    assert (before, change) == (json.loads(target), json.loads(patch)), "neither is changed"


def test_a_patch_that_is_too_deep_is_refused() -> None:
    patch: object = 1
    for _ in range(DEPTH_MAX + 1):
        patch = {"a": patch}
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        merge_patch({}, patch)
