"""Shadow mode presents a turn in another way and compares, but sends nothing. No other package depends on it."""
