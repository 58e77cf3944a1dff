-- Leases, whole messages, arrival numbers, cancelled turns, and conversation names that are all different.

-- The epoch of a lease has the epoch of the file in its upper half. Only open rows are compared with it.
UPDATE delivery SET epoch = epoch << 32
WHERE state NOT IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded');

UPDATE turn SET epoch = epoch << 32 WHERE state IN ('accepted', 'running');

-- Names as in `Target.conversation`. A damaged row keeps its old name.
UPDATE delivery SET conversation = coalesce(
    replace(replace(channel, '%', '%25'), ':', '%3A') || ':'
    || replace(replace(json_extract(operation, '$.target.chat'), '%', '%25'), '#', '%23')
    || coalesce('#' || json_extract(operation, '$.target.thread'), ''),
    conversation
)
WHERE (instr(conversation, '%') OR instr(conversation, '#') OR instr(channel, ':')) AND json_valid(operation);

ALTER TABLE turn ADD COLUMN conversation TEXT NOT NULL DEFAULT '';

UPDATE turn SET conversation = coalesce(
    replace(replace(json_extract(target, '$.channel'), '%', '%25'), ':', '%3A') || ':'
    || replace(replace(json_extract(target, '$.chat'), '%', '%25'), '#', '%23')
    || coalesce('#' || json_extract(target, '$.thread'), ''),
    ''
)
WHERE json_valid(target);

ALTER TABLE turn RENAME COLUMN input TO message;

UPDATE turn SET message = json_object(
    'type', 'message',
    'channel', coalesce(event.channel, json_extract(turn.target, '$.channel')),
    'event_id', coalesce(event.event_id, ''),
    'target', json(turn.target),
    'account', coalesce(event.account, ''),
    'text', turn.message
)
FROM turn AS same LEFT JOIN inbound AS event ON event.turn_id = same.turn_id
WHERE same.turn_id = turn.turn_id AND json_valid(turn.target)
    AND (turn.message <> '' OR turn.state = 'accepted');

ALTER TABLE turn ADD COLUMN arrival INTEGER NOT NULL DEFAULT 0;

UPDATE turn SET arrival = numbered.arrival
FROM (
    SELECT turn_id, row_number() OVER (PARTITION BY conversation ORDER BY rowid) AS arrival
    FROM turn WHERE message <> ''
) AS numbered
WHERE numbered.turn_id = turn.turn_id;

ALTER TABLE turn ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0;

-- The order in which turns were begun: counts up with each one.
ALTER TABLE turn ADD COLUMN begun INTEGER NOT NULL DEFAULT 0;

DROP INDEX turn_open;

CREATE INDEX turn_open ON turn (state, conversation, arrival) WHERE state IN ('accepted', 'running');

CREATE INDEX turn_arrival ON turn (conversation, arrival);

-- The ended turns that have a message or snapshot to delete.
CREATE INDEX turn_content ON turn (updated_at)
WHERE state NOT IN ('accepted', 'running') AND (message <> '' OR snapshot <> '{}');

DROP INDEX inbound_turn;

CREATE INDEX inbound_seen ON inbound (seen_at);

DROP INDEX delivery_final;

CREATE INDEX delivery_final ON delivery (forgotten, updated_at)
WHERE state IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded');

PRAGMA user_version = 2;
