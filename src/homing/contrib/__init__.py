"""Helpers for web frameworks. Each module needs its framework, which Homing does not install."""
