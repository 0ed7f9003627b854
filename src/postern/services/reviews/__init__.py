"""Reviews: requests for approval, decisions on them, and enforcement of what they gave."""
