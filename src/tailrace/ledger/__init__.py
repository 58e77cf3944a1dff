"""Ledgers: the durable record of turns and deliveries, and of what the platforms answered."""
