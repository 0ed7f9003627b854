"""Sinks, chats and reports, in the store."""
