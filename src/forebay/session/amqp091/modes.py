"""The methods of AMQP 0.9.1 by which a channel begins to be told of its publishes: confirm.select, and transactions."""

from __future__ import annotations

from mypy_extensions import i64

from forebay.core.errors import PRECONDITION, RequestError, note_half_change
from forebay.session.amqp091.channel import Channel
from forebay.session.amqp091.tx import Transaction
from forebay.session.session import Session
from forebay.wire.amqp091.codec import Reader, put_method
from forebay.wire.amqp091.methods import (
    CONFIRM_SELECT,
    CONFIRM_SELECT_OK,
    TX_COMMIT,
    TX_COMMIT_OK,
    TX_ROLLBACK,
    TX_ROLLBACK_OK,
    TX_SELECT,
    TX_SELECT_OK,
)


def on_mode_method(session: Session, channel: Channel, method: i64, args: Reader) -> bool:
    """Do a method of the classes confirm and tx; False if it is none."""
    if method == CONFIRM_SELECT:
        on_confirm_select(session, channel, args)
    elif method == TX_SELECT:
        on_tx_select(session, channel)
    elif method == TX_COMMIT:
        on_tx_commit(session, channel)
    elif method == TX_ROLLBACK:
        transaction_of(channel).clear()
        put_method(session.out, channel.number, TX_ROLLBACK_OK, b"")
    else:
        return False
    return True


def on_confirm_select(session: Session, channel: Channel, args: Reader) -> None:
    if channel.transaction is not None:
        raise RequestError(PRECONDITION, "cannot switch from tx to confirm mode")
    channel.publisher.confirming = True
    if not args.octet() & 1:
        put_method(session.out, channel.number, CONFIRM_SELECT_OK, b"")


def on_tx_select(session: Session, channel: Channel) -> None:
    publisher = channel.publisher
    if publisher.confirming:
        raise RequestError(PRECONDITION, "cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction(channel.link.transaction_octets_max)
        publisher.transaction = channel.transaction
        publisher.plain = False
    put_method(session.out, channel.number, TX_SELECT_OK, b"")


def transaction_of(channel: Channel) -> Transaction:
    """The channel's transaction; RequestError where it has not begun any."""
    transaction = channel.transaction
    if transaction is None:
        raise RequestError(PRECONDITION, "channel is not transactional")
    return transaction


def on_tx_commit(session: Session, channel: Channel) -> None:
    """Do all that was held back, in this turn and so in one frame; the answer leaves when that is on the disk."""
    try:
        transaction = transaction_of(channel)
        channel.publisher.commit()
        if transaction.settlements:
            # Acknowledgements wait for somebody else's commit otherwise.
            session.vhost.hurry()
            channel.settle_held(transaction.settlements)
        transaction.clear()
        channel.link.committed = True
        put_method(session.out, channel.number, TX_COMMIT_OK, b"")
    except Exception as error:
        note_half_change(error)
        raise
