"""What happens to every call, whatever service it came to."""
