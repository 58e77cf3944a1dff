-- Small values of the gateway, such as the approved people. They belong to no turn.

CREATE TABLE stored_value (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;

PRAGMA user_version = 3;
