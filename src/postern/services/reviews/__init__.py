"""Reviews: who has to agree is asked, people decide, and what was given is held to."""
