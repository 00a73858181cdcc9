"""Five applications of one engine, independent of each other."""
