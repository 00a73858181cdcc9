"""What operators do and see: verbs, filters, lists, explanations, exports."""
