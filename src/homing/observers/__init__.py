"""Who is told: logs, alert log, delivery log, metrics, Sentry."""
