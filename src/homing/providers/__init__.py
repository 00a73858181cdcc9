"""Mail and message services with the `Provider` port; each has its table of errors."""
