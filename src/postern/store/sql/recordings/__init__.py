"""What proves recordings, and how long they are kept, in the store."""
