"""Reviews in chats: notifications of reviews, and decisions by users whose chat account is linked."""
