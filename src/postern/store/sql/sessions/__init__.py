"""Sessions: their rows, lists, search, and what is still to be done about them."""
