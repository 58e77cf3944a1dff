"""Ledgers: the durable record of deliveries and of what is known of their arrival."""
