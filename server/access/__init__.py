"""Who may reach the server, and who may ask what."""
