"""Issues in a tracker: templates, their fields, and what a session fills in."""
