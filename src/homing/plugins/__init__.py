"""Plugins: their value, how they are found, and the programs made of them."""
