"""Stores in SQL databases: what they share, and one package per database."""
