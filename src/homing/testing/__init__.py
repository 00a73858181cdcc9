"""Tests and test tools for stores, providers and assemblies; shipped, so that you can use them."""
