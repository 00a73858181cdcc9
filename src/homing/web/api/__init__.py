"""The REST API: its table of operations, and what they do."""
