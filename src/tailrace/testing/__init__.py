"""Tools for tests: contracts, simulated platforms, a scripted model and virtual time.

The tests of tailrace use them, and you can use them for your own channels, runtimes, ledgers and bots.
"""
