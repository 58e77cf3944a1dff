-- Queries for deliveries. A name in braces is replaced by the text of that name. `is_open` and `is_final` must be
-- written exactly as in the indexes, so that SQLite can use them.

-- name: is_open
state NOT IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded')

-- name: is_final
state IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded')

-- name: delivery_columns
rid, turn_id, ordinal, state, attempt, spared, epoch, operation, policy, key, fingerprint, created_at,
first_try_at, last_try_at, not_before, receipt, error, may_be_double, updated_at

-- name: record
-- The row after VALUES is repeated for each new delivery; extra rows are all NULL. If fewer rows are recorded than were
-- given, it is unknown which. Column 22 says whether the operation would start a new message now.
INSERT INTO delivery (
    rid, turn_id, ordinal, conversation, channel, state, attempt, spared, epoch, operation, policy, key,
    fingerprint, created_at, first_try_at, last_try_at, not_before, receipt, error, may_be_double, updated_at
) SELECT
    column1, column2, column3, column4, column5, column6, column7, column8, column9, column10, column11, column12,
    column13, column14, column15, column16, column17, column18, column19, column20, column21
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS given
WHERE given.column1 IS NOT NULL
    AND (given.column6 <> 'sending' OR NOT EXISTS (
        SELECT 1 FROM delivery WHERE conversation = given.column4 AND {is_open}
    ))
    AND NOT (given.column22 AND EXISTS (
        SELECT 1 FROM turn WHERE turn.turn_id = given.column2 AND turn.cancelled
    ))
ON CONFLICT (turn_id, ordinal) DO NOTHING;

-- name: move
-- For many rows like `record`, with the flag in column 15.
UPDATE delivery SET
    state = given.column1, attempt = given.column2, spared = given.column3, first_try_at = given.column4,
    last_try_at = given.column5, not_before = given.column6, receipt = given.column7, error = given.column8,
    may_be_double = given.column9, updated_at = given.column10
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS given
WHERE delivery.rid = given.column11 AND delivery.state = given.column12
    AND delivery.epoch = given.column13 AND delivery.attempt = given.column14
    AND (given.column1 <> 'sending' OR NOT EXISTS (
        SELECT 1 FROM delivery AS earlier
        WHERE earlier.conversation = delivery.conversation AND earlier.rid < delivery.rid AND {is_open}
    ))
    AND NOT (given.column15 AND EXISTS (
        SELECT 1 FROM turn WHERE turn.turn_id = delivery.turn_id AND turn.cancelled
    ));

-- name: is_cancelled
-- Whether the row is as last seen, and only refused because its turn was cancelled.
SELECT 1 FROM delivery JOIN turn USING (turn_id)
WHERE rid = ?1 AND delivery.state = ?2 AND delivery.epoch = ?3 AND delivery.attempt = ?4 AND turn.cancelled;

-- name: highest_position
SELECT coalesce(max(rid), 0) FROM delivery;

-- name: position_taken
SELECT 1 FROM delivery WHERE rid = ?1;

-- name: delivery
SELECT {delivery_columns} FROM delivery WHERE turn_id = ?1 AND ordinal = ?2;

-- name: has_open
SELECT EXISTS (
    SELECT 1 FROM delivery
    WHERE conversation = ?1
        AND state NOT IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded')
) OR EXISTS (
    SELECT 1 FROM turn
    WHERE state IN ('accepted', 'running') AND state = 'running' AND conversation = ?1
);

-- name: open_deliveries
SELECT {delivery_columns} FROM delivery WHERE conversation = ?1 AND {is_open} ORDER BY rid LIMIT ?2;

-- name: adopt_delivery
UPDATE delivery SET state = ?1, epoch = ?2, first_try_at = ?3, not_before = ?4, error = ?5, updated_at = ?6
WHERE rid = ?7;

-- name: fail_damaged
UPDATE delivery SET state = 'failed', epoch = ?2, error = ?3, updated_at = ?4 WHERE rid = ?1;

-- name: open_conversations
-- Steps through the index from one conversation to the next, without reading the rows behind the first open one.
WITH RECURSIVE heads (conversation) AS (
    SELECT * FROM (
        SELECT conversation FROM delivery WHERE conversation > :after AND {is_open} ORDER BY conversation LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT conversation FROM delivery
        WHERE conversation > heads.conversation AND {is_open} ORDER BY conversation LIMIT 1
    ) AS next_one FROM heads WHERE heads.conversation IS NOT NULL
    LIMIT :limit
)
SELECT
    head.conversation, head.channel,
    CASE WHEN json_valid(head.operation) THEN json_extract(head.operation, '$.target') END,
    head.state, head.not_before, head.updated_at
FROM heads CROSS JOIN delivery AS head
WHERE heads.conversation IS NOT NULL AND head.rid = (
    SELECT rid FROM delivery WHERE conversation = heads.conversation AND {is_open} ORDER BY rid LIMIT 1
);

-- name: is_found
rid < :after
AND state IN (SELECT value FROM json_each(:states))
AND (:conversation IS NULL OR conversation = :conversation)
AND (:channel IS NULL OR channel = :channel)
AND (:before IS NULL OR updated_at < :before)

-- name: find
SELECT {delivery_columns} FROM delivery WHERE {is_found} ORDER BY rid DESC LIMIT :limit;

-- name: find_of_turn
SELECT {delivery_columns} FROM delivery WHERE turn_id = :turn_id AND {is_found} ORDER BY rid DESC LIMIT :limit;

-- name: find_open
SELECT {delivery_columns} FROM delivery
WHERE conversation = :conversation AND {is_open} AND {is_found} ORDER BY rid DESC LIMIT :limit;

-- name: find_undelivered
SELECT {delivery_columns} FROM delivery
WHERE conversation = :conversation AND state IN ('failed', 'dead', 'unknown') AND {is_found}
ORDER BY rid DESC LIMIT :limit;

-- name: is_prunable
-- Deliveries of an open turn stay, because its next ordinal is counted from them.
{is_final}
AND updated_at < :before
AND state IN (SELECT value FROM json_each(:states))
AND (:conversation IS NULL OR conversation = :conversation)
AND (:channel IS NULL OR channel = :channel)
AND NOT EXISTS (SELECT 1 FROM turn WHERE turn.turn_id = delivery.turn_id AND turn.state IN ('accepted', 'running'))

-- name: prunable
-- By age, which has an index: the writer must not scan other rows. The index begins with `forgotten`, so that rows
-- without a body are not read again.
SELECT rid, turn_id, operation FROM delivery WHERE forgotten IN (0, :rows) AND {is_prunable} LIMIT :limit;

-- name: prunable_of_turn
-- The plus keeps SQLite from the index by age.
SELECT rid, turn_id, operation FROM delivery
WHERE turn_id = :turn_id AND +forgotten IN (0, :rows) AND {is_prunable} LIMIT :limit;

-- name: delete_delivery
DELETE FROM delivery WHERE rid = ?1;

-- name: delete_body
UPDATE delivery SET operation = ?2, forgotten = 1 WHERE rid = ?1;
