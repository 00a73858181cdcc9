"""Where deliveries are kept: one package per kind of store, all behind the same port."""
