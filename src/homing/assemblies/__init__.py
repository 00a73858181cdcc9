"""The five designs as thin uses of one engine; each stands alone."""
