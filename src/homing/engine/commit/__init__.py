"""Writes that arrive together share one durable commit; each has its own answer."""
