"""The node `$cbs`, to which clients send tokens: claims-based security, as Azure Service Bus has it.

A connection that logged in by a token of another server renews its login by another token of the same user. One that
logged in by a shared access signature may send more of them, of the same user, for other entities or a later expiry.
"""

from __future__ import annotations

from typing import Final, final

from forebay.core.errors import RequestError
from forebay.directory.logins.authorizer import Principal
from forebay.directory.logins.login import REFUSAL, LoginRefused
from forebay.directory.logins.shared_keys import admit_signature, is_signature
from forebay.session.amqp10.context import LinkContext
from forebay.session.amqp10.servicebus.node_requests import (
    ACCEPTED,
    BAD_REQUEST,
    FORBIDDEN,
    NOT_IMPLEMENTED,
    PUT_TOKEN,
    UNAUTHORIZED,
    NodeRequest,
    encode_claims_answer,
)
from forebay.session.amqp10.servicebus.request_link import RequestLink, RequestNode
from forebay.session.shared.renewal import needs_proof, renew_rights

RENEWED: Final = "Accepted"


@final
class ClaimsNode(RequestNode):
    """The node `$cbs` of one connection."""

    def __init__(self, context: LinkContext) -> None:
        self.context = context

    def answer(self, request: NodeRequest, link: RequestLink) -> bytes | None:
        if request.operation != PUT_TOKEN:
            text = f"operation '{request.operation}': $cbs has {PUT_TOKEN}"
            return encode_claims_answer(request, NOT_IMPLEMENTED, text)
        token = request.body
        if not isinstance(token, str) or not token:
            return encode_claims_answer(request, BAD_REQUEST, "body: must be the token, as a string")
        try:
            if is_signature(token):
                return self.take_signature(request, token)
            return self.renew(request, token)
        except LoginRefused as error:
            session = self.context.session
            self.context.auth.note_refusal(int(session.id), error)
            session.note_denied(False, error.detail)
            return encode_claims_answer(request, UNAUTHORIZED, REFUSAL)

    def take_signature(self, request: NodeRequest, token: str) -> bytes:
        """Take a shared access signature; LoginRefused if it is not right, or of another user."""
        context = self.context
        session, access = context.session, context.access
        if access is None or not access.is_signed:
            text = "a shared access signature does not renew a login of another kind"
            return encode_claims_answer(request, BAD_REQUEST, text)
        found = admit_signature(context.auth, session.context, token)
        user = session.principal.user
        if found.principal.user != user:
            raise LoginRefused(f"user '{user}' cannot become '{found.principal.user}'")
        try:
            access.allow(found.path, found.principal.until_us)
        except RequestError as error:
            return encode_claims_answer(request, FORBIDDEN, error.text)
        session.principal = Principal(user, until_us=access.until_us())
        return self.answer_renewal(request)

    def renew(self, request: NodeRequest, token: str) -> bytes | None:
        """Take a token of another server; LoginRefused if it is not right, or of another user."""
        context = self.context
        session, auth = context.session, context.auth
        if context.access is not None and context.access.is_signed:
            text = "only a shared access signature renews a login by one"
            return encode_claims_answer(request, BAD_REQUEST, text)
        if needs_proof(session):
            session.proof = auth.begin(int(session.id), session.principal.user, token)
            if session.proof is not None:
                return None
            renew_rights(session, auth.check(session.principal.user, token, session.context.loopback))
        return self.answer_renewal(request)

    def answer_renewal(self, request: NodeRequest) -> bytes:
        return encode_claims_answer(request, ACCEPTED, RENEWED)
