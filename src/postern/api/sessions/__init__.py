"""What the API answers about sessions and their recordings, in each format."""
