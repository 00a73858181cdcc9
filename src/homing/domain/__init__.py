"""Values and the pure functions that change them. No clock, no randomness, no I/O."""
