"""The masking corpus: attacks on masked columns, run against databases that differ in masked values only.

Each attack runs once against each database of a pair, under every strategy and over every protocol. The client must
receive the same messages from both. A difference is a leak, unless the attack uses a documented channel.

- `attack` defines an attack and the documented channels. `attacks_postgres` and `attacks_mysql` list the attacks.
- `strategies` defines the masking policies. `honest` lists ordinary queries, and counts what each policy does to them.
- `postgres` and `mariadb` set up the databases. They drive the real link, masking and lineage with a real server.
- `gateway` drives a real gateway. `tests/e2e/test_masking_leaks.py` uses it for a part of the corpus.
- `open_leaks.txt` lists the leaks that are known and not closed yet. It must be exact: a test fails for a leak that is
  not listed, and for a listed leak that no longer leaks. `honest_counts.txt` holds the counts of ordinary queries.

`python -m tests.bypass masking` prints the table, and every leak. `--write` rewrites both files.
"""
