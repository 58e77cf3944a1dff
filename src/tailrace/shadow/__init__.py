"""Shadow mode: present the same turn another way, compare, send nothing. No other package depends on it."""
