"""State that outlives a process: ports, SQL on SQLite and PostgreSQL, migrations, encryption at rest,
and the signals by which processes that share a store tell each other what changed.
"""
