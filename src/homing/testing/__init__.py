"""Tests and test tools for stores, providers and assemblies; part of the public package."""
