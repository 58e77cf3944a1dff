-- Queries for turns and for the events that start them.

-- name: turn_columns
turn_id, target, state, message, arrival, snapshot, attempt, epoch, cancelled, updated_at,
max(0, coalesce((SELECT max(ordinal) FROM delivery WHERE delivery.turn_id = turn.turn_id), 0))

-- name: event_turn
SELECT turn_id FROM inbound WHERE channel = ?1 AND account = ?2 AND event_id = ?3;

-- name: record_event
INSERT INTO inbound (channel, account, event_id, turn_id, seen_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO NOTHING;

-- name: next_arrival
SELECT 1 + coalesce(max(arrival), 0) FROM turn WHERE conversation = ?1;

-- name: turns_ahead
SELECT count(*) FROM turn AS own JOIN turn AS earlier
    ON earlier.state IN ('accepted', 'running')
    AND earlier.conversation = own.conversation AND earlier.arrival < own.arrival
WHERE own.turn_id = ?1;

-- name: record_turn
INSERT INTO turn (
    turn_id, target, conversation, state, message, arrival, snapshot, attempt, epoch, cancelled, updated_at, begun
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0)
ON CONFLICT DO NOTHING;

-- name: turn
SELECT {turn_columns} FROM turn WHERE turn_id = ?1;

-- name: cancel_turn
UPDATE turn SET cancelled = 1 WHERE turn_id = ?1;

-- name: highest_begun
SELECT coalesce(max(begun), 0) FROM turn WHERE state IN ('accepted', 'running') AND state = 'running';

-- name: begin_turn
UPDATE turn SET state = 'running', attempt = ?2, epoch = ?3, updated_at = ?4, begun = ?5 WHERE turn_id = ?1;

-- name: end_turn
UPDATE turn SET state = ?2, epoch = ?3, updated_at = ?4
WHERE turn_id = ?1 AND state IN ('accepted', 'running') AND epoch = ?5 AND attempt = ?6 AND conversation = ?7;

-- name: save_snapshot
UPDATE turn SET snapshot = ?3, updated_at = ?4 WHERE turn_id = ?1 AND epoch = ?2 AND state = 'running';

-- name: interrupted_turns
-- In all conversations, or in the one between :first and :last. `begun` is 0 in rows of version 1.
SELECT {turn_columns} FROM turn
WHERE state IN ('accepted', 'running') AND state = 'running'
    AND conversation >= :first AND conversation <= :last
    AND epoch NOT IN (SELECT value FROM json_each(:leases))
ORDER BY begun, rowid LIMIT :limit;

-- name: accepted_turns
-- New rows have the highest rowid, so they come in the order of their arrival in all conversations together.
SELECT {turn_columns} FROM turn
WHERE state IN ('accepted', 'running') AND state = 'accepted'
    AND conversation >= :first AND conversation <= :last
ORDER BY rowid LIMIT :limit;

-- name: is_prunable_turn
state NOT IN ('accepted', 'running')
AND updated_at < :before
AND (:conversation IS NULL OR conversation = :conversation)
AND (:prefix IS NULL OR instr(conversation, :prefix) = 1)

-- name: turns_without_deliveries
SELECT turn_id FROM turn
WHERE {is_prunable_turn} AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.turn_id = turn.turn_id)
ORDER BY updated_at LIMIT :limit;

-- name: turns_with_content
SELECT turn_id FROM turn WHERE {is_prunable_turn} AND (message <> '' OR snapshot <> '{}')
ORDER BY updated_at LIMIT :limit;

-- name: delete_turn
DELETE FROM turn
WHERE turn_id = ?1 AND state NOT IN ('accepted', 'running')
    AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.turn_id = ?1);

-- name: delete_message
UPDATE turn SET message = '', snapshot = '{}' WHERE turn_id = ?1 AND state NOT IN ('accepted', 'running');

-- name: delete_events
-- An event stays known when its turn is deleted: the platform may send it again for days. As long as there is the turn,
-- the event is known by the id of the turn too.
DELETE FROM inbound WHERE (channel, account, event_id) IN (
    SELECT channel, account, event_id FROM inbound WHERE seen_at < ?1 ORDER BY seen_at LIMIT ?2
);
