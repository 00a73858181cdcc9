"""Who is told: logs, alert log, delivery log, metrics, traces, Sentry."""

# Notices that a route owes where somebody is there to give them.
DELIVERY_LOG = "delivery_log"
SENTRY = "sentry"
