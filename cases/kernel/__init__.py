"""Reports on a user's own traced kernel."""
