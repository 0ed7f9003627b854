"""Use cases, one file each. They decide about permissions, and know neither HTTP nor SQL."""
