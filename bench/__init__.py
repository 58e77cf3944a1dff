"""What tailrace costs, as ratios measured side by side in one run; `python -m bench` prints the table.

A module per area holds its rows; `bench.rows` says what a row is. A new area is a module with `rows(scale)`
that `bench.__main__.AREAS` names.
"""
