"""Answers about sessions and their recordings, in each format."""
