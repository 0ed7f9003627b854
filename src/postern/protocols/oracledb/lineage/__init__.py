"""Column lineage of SQL and PL/SQL."""
