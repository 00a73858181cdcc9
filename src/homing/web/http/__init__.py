"""HTTP itself: connections, bodies, calls, answers, problems."""
