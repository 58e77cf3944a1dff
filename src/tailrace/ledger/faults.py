"""What an error of SQLite means: not now, never again in this process, or only this one change.

The one place that knows result codes. `LedgerUnavailable`: the transaction was rolled back, and the disk, the memory or
somebody else may make room. `LedgerLost`: what is on the disk is no longer known (a sync that failed is never tried
again: the pages it was for may be gone, and a second one may lie), or it cannot be read.
"""

from __future__ import annotations

import sqlite3

from tailrace.errors import LedgerLost, LedgerUnavailable, LedgerUnusable

TRANSACTION_ERRORS = (sqlite3.Error, MemoryError)
"""What a statement may raise that ends the transaction it is in."""

_FULL = "there is no space left on its disk"
_EXTENDED = {
    sqlite3.SQLITE_IOERR_WRITE: "its disk does not take any more (full, or over a limit)",
    sqlite3.SQLITE_IOERR_SHMSIZE: _FULL,
    sqlite3.SQLITE_IOERR_NOMEM: "there is no memory left",
}
_PRIMARY = {
    sqlite3.SQLITE_BUSY: "another program holds it locked",
    sqlite3.SQLITE_LOCKED: "another program holds it locked",
    sqlite3.SQLITE_NOMEM: "there is no memory left",
    sqlite3.SQLITE_READONLY: "it may not be written (read-only file system, or the rights of the file)",
    sqlite3.SQLITE_INTERRUPT: "the question took too long; ask for less",
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_CANTOPEN: "its files cannot be opened (rights, or too many open files)",
    sqlite3.SQLITE_PROTOCOL: "another program holds it locked",
}
_LOST = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def _code(error: BaseException) -> int:
    return getattr(error, "sqlite_errorcode", None) or (
        sqlite3.SQLITE_NOMEM if isinstance(error, MemoryError) else sqlite3.SQLITE_ERROR
    )


def at_run_time(error: BaseException, path: object) -> LedgerUnavailable | LedgerLost | None:
    """What the error means for everybody; None where it is the fault of one change alone."""
    code = _code(error)
    if code == sqlite3.SQLITE_READONLY_DBMOVED:
        return LedgerLost(f"{path} was moved or deleted while in use. End tailrace and put the file back.")
    why = _EXTENDED.get(code) or _PRIMARY.get(code & 0xFF)
    if why is not None:
        return LedgerUnavailable(f"{path} cannot be used now: {why}. It is tried again.")
    if code & 0xFF in _LOST:
        return LedgerLost(
            f"{path} broke while in use ({error}): what reached the disk is not known. tailrace has to be started "
            "again, which reads the ledger anew; if that is refused, look at the disk and restore the newest copy."
        )
    return None


def at_opening(error: BaseException, path: object) -> LedgerUnavailable | LedgerUnusable:
    """Why the ledger is not opened."""
    code = _code(error)
    if code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return unreadable(path, str(error))
    if code & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM}:
        return LedgerUnavailable(f"{path} cannot be opened now: {_PRIMARY[code & 0xFF]}. Try again.")
    why = _EXTENDED.get(code) or _PRIMARY.get(code & 0xFF) or str(error)
    return LedgerUnusable(f"{path} cannot be opened: {why}. Mend that, or name another path for the ledger.")


def unreadable(path: object, why: str) -> LedgerUnusable:
    """What to say of a file that is not, or no longer, a ledger."""
    return LedgerUnusable(
        f"{path} is damaged or not a ledger ({why}). It is left as it is: restore the newest copy, or move the file "
        "and those named after it away to begin an empty ledger."
    )
