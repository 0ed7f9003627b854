"""Messages that pass the client's half as they come."""

from __future__ import annotations

from postern.protocols.postgres.wire.postgres_wire import PostgresWire


def test_copy_data_that_ends_with_a_read_waits_for_the_next_one() -> None:
    """A CopyData whose rest is still to come must end the poll, not be polled for ever."""
    wire = PostgresWire()
    wire.feed_client(b"d\0\0\0\x0ehalf ")
    assert wire.poll_client() == b"d\0\0\0\x0ehalf "
    assert wire.poll_client() is None
    wire.feed_client(b"rest!")
    assert wire.poll_client() == b"rest!"
    assert wire.poll_client() is None
