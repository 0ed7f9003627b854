"""What is done with recordings once they are written."""
