"""Who may use the service: users, their passwords, and API tokens."""
