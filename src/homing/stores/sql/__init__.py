"""Stores in SQL databases: shared code, and one package per database."""
