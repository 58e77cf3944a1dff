"""What an SQLite error means: try again later, end this process, or refuse only this one change.

Only this module knows the result codes of SQLite. `LedgerUnavailable`: the transaction was rolled back, and may work
later. `LedgerLost`: the content on disk is unknown or unreadable. A failed sync is never repeated: its pages may be
lost already, and a second sync could still report success.
"""

from __future__ import annotations

import apsw

from tailrace.errors import LedgerLost, LedgerUnavailable, LedgerUnusable

TRANSACTION_ERRORS = (apsw.Error, MemoryError)
"""The errors of a statement that end its transaction."""

_FULL = "there is no space left on its disk"
_EXTENDED = {
    apsw.SQLITE_IOERR_WRITE: "its disk accepts no more data (full, or over a limit)",
    apsw.SQLITE_IOERR_SHMSIZE: _FULL,
    apsw.SQLITE_IOERR_NOMEM: "there is no memory left",
}
_PRIMARY = {
    apsw.SQLITE_BUSY: "another program holds it locked",
    apsw.SQLITE_LOCKED: "another program holds it locked",
    apsw.SQLITE_NOMEM: "there is no memory left",
    apsw.SQLITE_READONLY: "it is not writable (read-only file system, or file permissions)",
    apsw.SQLITE_INTERRUPT: "the query took too long; ask for less",
    apsw.SQLITE_FULL: _FULL,
    apsw.SQLITE_CANTOPEN: "its files cannot be opened (permissions, or too many open files)",
    apsw.SQLITE_PROTOCOL: "another program holds it locked",
}
_LOST = {apsw.SQLITE_IOERR, apsw.SQLITE_CORRUPT, apsw.SQLITE_NOTADB}


def _code(error: BaseException) -> int:
    return getattr(error, "extendedresult", None) or (
        apsw.SQLITE_NOMEM if isinstance(error, MemoryError) else apsw.SQLITE_ERROR
    )


def runtime_error(error: BaseException, path: object) -> LedgerUnavailable | LedgerLost | None:
    """The error that all callers get; None if the error concerns only one change."""
    code = _code(error)
    if code == apsw.SQLITE_READONLY_DBMOVED:
        return LedgerLost(f"{path} was moved or deleted while in use. End tailrace and put the file back.")
    why = _EXTENDED.get(code) or _PRIMARY.get(code & 0xFF)
    if why is not None:
        return LedgerUnavailable(f"{path} cannot be used now: {why}. tailrace tries again.")
    if code & 0xFF in _LOST:
        return LedgerLost(
            f"{path} broke while in use ({error}): it is unknown what reached the disk. Start tailrace again. "
            "If it refuses the ledger, check the disk and restore the newest copy."
        )
    return None


def opening_error(error: BaseException, path: object) -> LedgerUnavailable | LedgerUnusable:
    """The error for a ledger that cannot be opened."""
    code = _code(error)
    if code & 0xFF in {apsw.SQLITE_CORRUPT, apsw.SQLITE_NOTADB}:
        return unreadable(path, str(error))
    if code & 0xFF in {apsw.SQLITE_BUSY, apsw.SQLITE_LOCKED, apsw.SQLITE_NOMEM}:
        return LedgerUnavailable(f"{path} cannot be opened now: {_PRIMARY[code & 0xFF]}. Try again.")
    why = _EXTENDED.get(code) or _PRIMARY.get(code & 0xFF) or str(error)
    return LedgerUnusable(f"{path} cannot be opened: {why}. Fix that, or name another path for the ledger.")


def unreadable(path: object, why: str) -> LedgerUnusable:
    """The error for a file that is not, or no longer, a ledger."""
    return LedgerUnusable(
        f"{path} is damaged or not a ledger ({why}). It was not changed. Restore the newest copy, or move the file "
        "and those named after it away to start an empty ledger."
    )
