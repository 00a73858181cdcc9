"""The pure heart: values and the functions that change them. No clock, no chance, no I/O."""
