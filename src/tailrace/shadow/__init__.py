"""Shadow mode presents a turn in a second way, sends nothing, and compares the result with the first way.

Use it to try other settings or another projector with real turns. No other package depends on it.
"""
