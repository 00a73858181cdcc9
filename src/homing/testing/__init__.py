"""What proves a store, a provider or an assembly: shipped, so that yours can be proved as well."""
