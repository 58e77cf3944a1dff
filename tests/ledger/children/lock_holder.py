"""A database tool that keeps the file locked until its input ends."""

from __future__ import annotations

import sqlite3
import sys

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("ready", flush=True)
sys.stdin.read()
connection.execute("ROLLBACK")
connection.close()
