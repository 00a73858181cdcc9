"""Mail templates: a closed subset of Jinja2, read once, rendered within fixed bounds."""

from homing.content.templates.catalog import Catalog, Rendered

__all__ = ["Catalog", "Rendered"]
