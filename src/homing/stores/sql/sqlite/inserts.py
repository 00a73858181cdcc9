"""Statements that insert rows of new deliveries, for all who add some."""

from __future__ import annotations

from homing.stores.sql.sqlite.rows import PARTS
from homing.stores.sql.statements import Bulk, load

ADD_SQL = load(__package__, "add.sql", PARTS)
INSERT_DELIVERIES = Bulk(ADD_SQL["insert_deliveries"])
INSERT_PLAIN = Bulk(ADD_SQL["insert_plain"])
INSERT_RECORDS = Bulk(ADD_SQL["insert_records"])
INSERT_PAYLOADS = Bulk(ADD_SQL["insert_payloads"])
INSERT_KEYS = Bulk(ADD_SQL["insert_keys"])
INSERT_RECIPIENTS = Bulk(ADD_SQL["insert_recipients"])
