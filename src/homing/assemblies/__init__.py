"""The five designs as thin uses of one engine. Each stands alone and is found by its entry point."""
