"""What a contestant's own process runs. Only the standard library: peers bring no more."""
