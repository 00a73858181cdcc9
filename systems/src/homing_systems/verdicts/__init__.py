"""Verdict mails of paid sessions: sent in the caller's call, then four retries, then a dead letter.

The queue is a JSONL file of retry records. Every paid session with an address ends DELIVERED, or
DEAD with a dead-letter line and an alert line.
"""

from homing_systems.verdicts.plugin import PLUGIN

__all__ = ["PLUGIN"]
