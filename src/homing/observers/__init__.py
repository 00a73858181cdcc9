"""Observers and notifiers: logs, alert log, delivery log, metrics, traces, Sentry."""

# Notices that a route has only where a notifier for them is configured.
DELIVERY_LOG = "delivery_log"
SENTRY = "sentry"
