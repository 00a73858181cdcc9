"""Mail templates: a closed subset of Jinja2, read once, rendered within fixed bounds.

They have `{{ }}`, `if`, `for` and `set`; arithmetic, comparisons, `~`; the filters and tests of
`filters.py`; `range()` and a few methods of text and objects; layouts and includes from the
catalog. They have no macros and no imports. In HTML a variable may stand between tags, inside
quoted attributes and as a value in CSS.
"""

from homing.content.templates.catalog import Catalog, Rendered

__all__ = ["Catalog", "Rendered"]
