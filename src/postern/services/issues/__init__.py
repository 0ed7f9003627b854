"""Issues in the organisation's tracker: their templates, and what sessions open and close there."""
