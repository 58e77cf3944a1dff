"""The cost of tailrace, as ratios that one run measures side by side. `python -m bench` prints the table.

A module per area holds its rows; `bench.rows` says what a row is. A new area is a module with `rows(scale)`
that `bench.__main__.AREAS` names.
"""
