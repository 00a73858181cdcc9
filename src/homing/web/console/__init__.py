"""The operator console: pages over the same operations as REST and the command line."""
