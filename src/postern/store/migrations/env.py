"""Runs migrations on the connection that `Database.migrate` hands in; there is no other way to run them."""

from __future__ import annotations

from alembic import context

from postern.store.schema.columns import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
