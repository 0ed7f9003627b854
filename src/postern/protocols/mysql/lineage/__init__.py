"""Lineage of MySQL and MariaDB, of sqlglot's tree (decision 0058)."""
