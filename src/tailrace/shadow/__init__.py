"""Shadow mode: the same turn presented another way, compared, and sent to nobody. Nothing else depends on it."""
