"""Chats that reviewers read: Slack, Microsoft Teams, e-mail, and what Apprise speaks."""
