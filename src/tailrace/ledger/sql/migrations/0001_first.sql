-- The schema. Open rows are those in none of the six final states. A state that only a newer version knows counts as
-- open: it blocks the rows behind it, and this version does not change it.

CREATE TABLE ledger (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    ledger_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    restored_epoch INTEGER NOT NULL,
    commits INTEGER NOT NULL
);

CREATE TABLE turn (
    turn_id TEXT NOT NULL PRIMARY KEY,
    target TEXT NOT NULL,
    state TEXT NOT NULL,
    input TEXT NOT NULL,
    snapshot TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    updated_at REAL NOT NULL
);

CREATE INDEX turn_open ON turn (state, epoch, turn_id) WHERE state IN ('accepted', 'running');

CREATE INDEX turn_over ON turn (updated_at) WHERE state NOT IN ('accepted', 'running');

CREATE TABLE inbound (
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    event_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    seen_at REAL NOT NULL,
    PRIMARY KEY (channel, account, event_id)
) WITHOUT ROWID;

CREATE INDEX inbound_turn ON inbound (turn_id);

CREATE TABLE delivery (
    rid INTEGER PRIMARY KEY,
    turn_id TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    conversation TEXT NOT NULL,
    channel TEXT NOT NULL,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    spared INTEGER NOT NULL,  -- `Delivery.deferred_tries`
    epoch INTEGER NOT NULL,
    operation TEXT NOT NULL,
    policy TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    created_at REAL NOT NULL,
    first_try_at REAL,
    last_try_at REAL,
    not_before REAL,
    receipt TEXT,
    error TEXT NOT NULL,
    may_be_double INTEGER NOT NULL,
    updated_at REAL NOT NULL,
    forgotten INTEGER NOT NULL DEFAULT 0,
    UNIQUE (turn_id, ordinal)
);

-- An index ends in the row's own number, rid: both of these keep the order of a conversation.
CREATE INDEX delivery_open ON delivery (conversation)
WHERE state NOT IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded');

-- What is forgotten first is what has been final longest.
CREATE INDEX delivery_final ON delivery (updated_at)
WHERE state IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded');

CREATE INDEX delivery_left_out ON delivery (conversation) WHERE state IN ('failed', 'dead', 'unknown');

INSERT INTO ledger VALUES (1, lower(hex(randomblob(16))), 0, 0, 0);

PRAGMA user_version = 1;
