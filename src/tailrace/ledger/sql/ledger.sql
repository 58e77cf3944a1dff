-- The file itself: settings of connections, identity, owner.

-- name: new_file_settings
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA application_id = 0x7472616c;

-- name: writer_settings
-- The writer makes the checkpoints: SQLite does not report the errors of automatic ones.
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -16384;
PRAGMA journal_size_limit = 16777216;
PRAGMA wal_autocheckpoint = 0;

-- name: reader_settings
PRAGMA query_only = 1;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -16384;
PRAGMA wal_autocheckpoint = 0;

-- name: journal_mode
PRAGMA journal_mode;

-- name: application_id
PRAGMA application_id;

-- name: user_version
PRAGMA user_version;

-- name: schema_objects
SELECT count(*) FROM sqlite_schema;

-- name: quick_check
PRAGMA quick_check(1);

-- name: checkpoint
PRAGMA wal_checkpoint(PASSIVE);

-- name: begin
BEGIN IMMEDIATE;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- name: savepoint
SAVEPOINT change;

-- name: keep_savepoint
RELEASE change;

-- name: undo_savepoint
ROLLBACK TO change;

-- name: read_ledger
SELECT ledger_id, epoch, restored_epoch, commits FROM ledger;

-- name: take_over
UPDATE ledger SET epoch = ?1, restored_epoch = ?2, commits = ?3;

-- name: count_commit
UPDATE ledger SET commits = ?2 WHERE epoch = ?1 AND commits = ?2 - 1;

-- name: shrink_file
-- In steps, so that one change does not take long.
PRAGMA incremental_vacuum(512);
