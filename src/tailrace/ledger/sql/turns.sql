-- Queries for turns and for the events that start them.

-- name: event_turn
SELECT turn_id FROM inbound WHERE channel = ?1 AND account = ?2 AND event_id = ?3;

-- name: record_event
INSERT INTO inbound (channel, account, event_id, turn_id, seen_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO NOTHING;

-- name: record_turn
INSERT INTO turn (turn_id, target, state, input, snapshot, attempt, epoch, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT DO NOTHING;

-- name: begin_turn
-- The turn may have deliveries already: they can be planned before it is begun.
INSERT INTO turn (turn_id, target, state, input, snapshot, attempt, epoch, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT DO NOTHING
RETURNING max(0, coalesce((SELECT max(ordinal) FROM delivery WHERE delivery.turn_id = ?1), 0));

-- name: turn
SELECT
    turn_id, target, state, input, snapshot, attempt, epoch, updated_at,
    max(0, coalesce((SELECT max(ordinal) FROM delivery WHERE delivery.turn_id = turn.turn_id), 0))
FROM turn WHERE turn_id = ?1;

-- name: resume_turn
UPDATE turn SET state = 'running', attempt = ?2, epoch = ?3, updated_at = ?4 WHERE turn_id = ?1;

-- name: end_turn
UPDATE turn SET state = ?2, epoch = ?3, updated_at = ?4
WHERE turn_id = ?1 AND state IN ('accepted', 'running') AND epoch = ?5 AND attempt = ?6;

-- name: save_snapshot
UPDATE turn SET snapshot = ?2, updated_at = ?3
WHERE turn_id = ?1 AND epoch = ?4 AND state IN ('accepted', 'running');

-- name: interrupted_turns
SELECT
    turn_id, target, state, input, snapshot, attempt, epoch, updated_at,
    max(0, coalesce((SELECT max(ordinal) FROM delivery WHERE delivery.turn_id = turn.turn_id), 0))
FROM turn
WHERE state IN ('accepted', 'running') AND state = ?2 AND epoch < ?1
ORDER BY epoch, turn_id LIMIT ?3;

-- name: delete_turn
DELETE FROM turn
WHERE turn_id = ?1 AND state NOT IN ('accepted', 'running')
    AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.turn_id = ?1);

-- name: delete_events
DELETE FROM inbound WHERE turn_id = ?1 AND NOT EXISTS (SELECT 1 FROM turn WHERE turn.turn_id = ?1);

-- name: delete_input
UPDATE turn SET input = '', snapshot = '{}' WHERE turn_id = ?1 AND state NOT IN ('accepted', 'running');

-- name: turns_without_deliveries
-- Nothing else would delete them.
SELECT turn_id FROM turn
WHERE state NOT IN ('accepted', 'running') AND updated_at < ?1
    AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.turn_id = turn.turn_id)
ORDER BY updated_at LIMIT ?2;
