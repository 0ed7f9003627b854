"""Recordings as people read them: pages and timelines, live, and as files behind signed links."""
