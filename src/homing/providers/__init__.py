"""Mail and message services behind the `Provider` port; each brings its table of errors."""
