"""The content of a mail: addresses, headers, bodies, templates, calendar parts."""
