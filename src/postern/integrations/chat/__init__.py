"""Chats for reviewers: Slack, Microsoft Teams, e-mail, and the services of Apprise."""
