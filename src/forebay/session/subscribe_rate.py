"""The rate at which one connection may subscribe."""

from __future__ import annotations

from forebay.core.buckets import Bucket
from forebay.core.options import Options


def subscribe_bucket(options: Options) -> Bucket | None:
    """A bucket for the subscriptions and consumers of one connection; None where nobody limits them."""
    if options.client_subscribes_per_s == 0:
        return None
    return Bucket(options.client_subscribes_per_s, options.client_subscribes_burst, 0)
