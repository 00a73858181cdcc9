"""Where deliveries are kept: one package per kind of store, all alike to the engine."""
