"""Homing measured beside its peers: `python -m benchmarks`, or `make bench`."""
