"""Mail templates: a closed subset of Jinja2, read once, rendered within fixed bounds.

They have `{{ }}`, `if`, `for` and `set`; arithmetic, comparisons, `~`; the filters and tests of
`filters.py`; `range()` and a few methods of text and objects. They have no macros, imports,
blocks or includes. In HTML a variable may stand between tags and inside quoted attributes.
"""

from homing.content.templates.catalog import Catalog, Rendered

__all__ = ["Catalog", "Rendered"]
