"""Ledgers: the durable record of what was decided to be said, and of what is known to have arrived."""
