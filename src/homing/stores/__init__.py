"""Stores: one package per kind, all with the same port."""
