"""Where people are: one adapter per platform, loaded by name through `tailrace.plugins`."""
