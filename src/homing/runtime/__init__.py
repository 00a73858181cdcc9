"""The composition root: URLs become stores and providers, routes become an engine."""
