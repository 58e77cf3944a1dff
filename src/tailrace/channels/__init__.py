"""The channels: one adapter for each chat platform, loaded by name through `tailrace.plugins`."""
