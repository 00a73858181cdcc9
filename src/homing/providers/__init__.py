"""Mail and message services behind the `Provider` port; each has its table of errors."""
