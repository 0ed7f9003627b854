"""Queries for objects of Assets, by their displayed name.

https://support.atlassian.com/jira-service-management-cloud/docs/use-assets-query-language-aql/
"""

from __future__ import annotations


def search(object_type: str, query: str) -> str:
    """Return a query for objects whose name contains `query`; all of that type for "". Assets sorts by the label."""
    of_type = f"objectType = {_quote(object_type)}"
    return f"{of_type} AND Name LIKE {_quote(query)}" if query else of_type


def query_by_name(object_type: str, name: str) -> str:
    return f"objectType = {_quote(object_type)} AND Name = {_quote(name)}"


def _quote(words: str) -> str:
    return '"' + words.replace("\\", "\\\\").replace('"', '\\"') + '"'
