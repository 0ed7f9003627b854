"""The ports of `store.ports` on SQLAlchemy Core: one code for SQLite and PostgreSQL."""
