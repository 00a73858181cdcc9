"""Homing itself: the same contest as the peers', and what only we are asked for."""
