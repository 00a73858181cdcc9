"""Five designs as thin uses of one engine, independent of each other."""
