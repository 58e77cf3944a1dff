"""A turn as it looks on one channel, over time: events and the clock in, operations out."""
