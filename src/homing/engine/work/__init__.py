"""From due work to its outcome: claimed, started, attempted, settled."""
