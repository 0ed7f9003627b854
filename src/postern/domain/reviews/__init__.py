"""Reviews: approval of access and of what runs."""
