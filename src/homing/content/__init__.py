"""What goes into a mail: addresses, headers, bodies, templates, calendar parts."""
