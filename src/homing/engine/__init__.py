"""The use cases, over ports and domain: admission, worker, operations, housekeeping."""
