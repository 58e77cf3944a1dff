"""Where agents come from: each adapter turns one foreign stream into events, and is loaded by name."""
