"""Use cases, one file each. They decide who is allowed to do what, and know neither HTTP nor SQL."""
