"""The runtimes: each adapter translates the stream of one kind of agent into events, and is loaded by name."""
