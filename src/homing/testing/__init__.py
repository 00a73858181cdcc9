"""Tests and test tools for stores, providers and plugins; part of the public package."""
