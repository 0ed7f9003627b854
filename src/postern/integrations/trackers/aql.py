"""Queries for objects of Assets, by the name that people see.

https://support.atlassian.com/jira-service-management-cloud/docs/use-assets-query-language-aql/
"""

from __future__ import annotations


def search(object_type: str, query: str) -> str:
    """Whose name contains it; all of that type with "" for a query. Assets sorts by what an object is labelled with."""
    of_type = f"objectType = {_quoted(object_type)}"
    return f"{of_type} AND Name LIKE {_quoted(query)}" if query else of_type


def named(object_type: str, name: str) -> str:
    return f"objectType = {_quoted(object_type)} AND Name = {_quoted(name)}"


def _quoted(words: str) -> str:
    return '"' + words.replace("\\", "\\\\").replace('"', '\\"') + '"'
