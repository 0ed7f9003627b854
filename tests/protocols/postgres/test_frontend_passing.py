"""Messages that are forwarded to the target in chunks, before they are complete."""

from __future__ import annotations

from postern.protocols.postgres.wire.postgres_wire import PostgresWire


def test_incomplete_copy_data_is_forwarded_and_waits_for_the_next_read() -> None:
    """An incomplete CopyData message must end the poll instead of an endless loop."""
    wire = PostgresWire()
    wire.feed_client(b"d\0\0\0\x0ehalf ")
    assert wire.poll_client() == b"d\0\0\0\x0ehalf "
    assert wire.poll_client() is None
    wire.feed_client(b"rest!")
    assert wire.poll_client() == b"rest!"
    assert wire.poll_client() is None
