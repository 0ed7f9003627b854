"""Reviews: who must agree before somebody is let in or something runs."""
