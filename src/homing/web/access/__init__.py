"""Who calls, and from where: tokens, sessions, cookies, origins, forms."""
