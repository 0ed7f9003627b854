"""Reviews in chats: they are told there, and decided by who is known there."""
