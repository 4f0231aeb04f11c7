"""Clients that prove again who they are, while their connection stays open."""

from __future__ import annotations

from forebay.directory.logins.authorizer import Principal
from forebay.directory.logins.login import LoginRefused
from forebay.session.session import Session


def needs_proof(session: Session) -> bool:
    """Return whether the client's rights follow from what it proves: from a token, or from what another server says.

    For all others nothing follows from a new secret, and as with RabbitMQ any will do.
    """
    principal = session.principal
    return principal.authorizer is not None or principal.until_us != 0


def renew_rights(session: Session, principal: Principal) -> None:
    """Let a client from here on do what its new proof says. Raises LoginRefused if it is somebody else's."""
    if principal.user != session.principal.user:
        raise LoginRefused(f"user '{session.principal.user}' cannot become '{principal.user}'")
    session.principal = principal
    if principal.authorizer is not None:
        session.rights.grants.authorizer = principal.authorizer
        session.rights.grants.end_version()  # of what the old one allowed
