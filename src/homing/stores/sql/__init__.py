"""Stores that speak SQL: what they share, and one package per database."""
