"""What an adaptation changed, and its file."""
