"""Stand-ins for issue trackers: they take what the vendors document and nothing else, and remember what they made."""
