-- Queries for deliveries. The open states are written out each time exactly as in the index `delivery_open`, so that
-- SQLite can use it.

-- name: record_delivery
INSERT INTO delivery (
    rid, turn_id, ordinal, conversation, channel, state, attempt, spared, epoch, operation, policy, key,
    fingerprint, created_at, first_try_at, last_try_at, not_before, receipt, error, may_be_double, updated_at
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)
ON CONFLICT (turn_id, ordinal) DO NOTHING;

-- name: record_sending
INSERT INTO delivery (
    rid, turn_id, ordinal, conversation, channel, state, attempt, spared, epoch, operation, policy, key,
    fingerprint, created_at, first_try_at, last_try_at, not_before, receipt, error, may_be_double, updated_at
) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21
WHERE NOT EXISTS (
    SELECT 1 FROM delivery
    WHERE conversation = ?4
        AND state NOT IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded')
)
ON CONFLICT (turn_id, ordinal) DO NOTHING;

-- name: move_delivery
UPDATE delivery SET
    state = ?1, attempt = ?2, spared = ?3, first_try_at = ?4, last_try_at = ?5, not_before = ?6, receipt = ?7,
    error = ?8, may_be_double = ?9, updated_at = ?10
WHERE rid = ?11 AND state = ?12 AND epoch = ?13 AND attempt = ?14;

-- name: move_to_sending
UPDATE delivery SET
    state = ?1, attempt = ?2, spared = ?3, first_try_at = ?4, last_try_at = ?5, not_before = ?6, receipt = ?7,
    error = ?8, may_be_double = ?9, updated_at = ?10
WHERE rid = ?11 AND state = ?12 AND epoch = ?13 AND attempt = ?14
    AND NOT EXISTS (
        SELECT 1 FROM delivery AS earlier
        WHERE earlier.conversation = delivery.conversation AND earlier.rid < ?11
            AND earlier.state NOT IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded')
    );

-- Many rows of different conversations by one statement. The row after VALUES is repeated for each row; extra rows are all
-- NULL. If fewer rows are changed than were given, it is unknown which, and the changes are made again one by one.

-- name: record_many
INSERT INTO delivery (
    rid, turn_id, ordinal, conversation, channel, state, attempt, spared, epoch, operation, policy, key,
    fingerprint, created_at, first_try_at, last_try_at, not_before, receipt, error, may_be_double, updated_at
) SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS given
WHERE given.column1 IS NOT NULL
ON CONFLICT (turn_id, ordinal) DO NOTHING;

-- name: record_many_sending
INSERT INTO delivery (
    rid, turn_id, ordinal, conversation, channel, state, attempt, spared, epoch, operation, policy, key,
    fingerprint, created_at, first_try_at, last_try_at, not_before, receipt, error, may_be_double, updated_at
) SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS given
WHERE given.column1 IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM delivery
    WHERE conversation = given.column4
        AND state NOT IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded')
)
ON CONFLICT (turn_id, ordinal) DO NOTHING;

-- name: move_many
UPDATE delivery SET
    state = given.column1, attempt = given.column2, spared = given.column3, first_try_at = given.column4,
    last_try_at = given.column5, not_before = given.column6, receipt = given.column7, error = given.column8,
    may_be_double = given.column9, updated_at = given.column10
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS given
WHERE delivery.rid = given.column11 AND delivery.state = given.column12
    AND delivery.epoch = given.column13 AND delivery.attempt = given.column14;

-- name: move_many_to_sending
UPDATE delivery SET
    state = given.column1, attempt = given.column2, spared = given.column3, first_try_at = given.column4,
    last_try_at = given.column5, not_before = given.column6, receipt = given.column7, error = given.column8,
    may_be_double = given.column9, updated_at = given.column10
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS given
WHERE delivery.rid = given.column11 AND delivery.state = given.column12
    AND delivery.epoch = given.column13 AND delivery.attempt = given.column14
    AND NOT EXISTS (
        SELECT 1 FROM delivery AS earlier
        WHERE earlier.conversation = delivery.conversation AND earlier.rid < delivery.rid
            AND earlier.state NOT IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded')
    );

-- name: position_taken
SELECT 1 FROM delivery WHERE rid = ?1;

-- name: delivery
SELECT
    rid, turn_id, ordinal, state, attempt, spared, epoch, operation, policy, key, fingerprint, created_at,
    first_try_at, last_try_at, not_before, receipt, error, may_be_double, updated_at
FROM delivery WHERE turn_id = ?1 AND ordinal = ?2;

-- name: open_deliveries
SELECT
    rid, turn_id, ordinal, state, attempt, spared, epoch, operation, policy, key, fingerprint, created_at,
    first_try_at, last_try_at, not_before, receipt, error, may_be_double, updated_at
FROM delivery
WHERE conversation = ?1
    AND state NOT IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded')
ORDER BY rid LIMIT ?2;

-- name: adopt_delivery
UPDATE delivery SET state = ?1, epoch = ?2, first_try_at = ?3, not_before = ?4, error = ?5, updated_at = ?6
WHERE rid = ?7;

-- name: open_conversations
-- Steps through the index from one conversation to the next, without reading the rows behind the first open one.
WITH RECURSIVE heads (conversation) AS (
    SELECT * FROM (
        SELECT conversation FROM delivery
        WHERE conversation > :after
            AND state NOT IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded')
        ORDER BY conversation LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT conversation FROM delivery
        WHERE conversation > heads.conversation
            AND state NOT IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded')
        ORDER BY conversation LIMIT 1
    ) AS next_one FROM heads WHERE heads.conversation IS NOT NULL
    LIMIT :limit
)
SELECT head.conversation, head.channel, head.state, head.epoch, head.not_before, head.updated_at
FROM heads CROSS JOIN delivery AS head
WHERE heads.conversation IS NOT NULL AND head.rid = (
    SELECT rid FROM delivery
    WHERE conversation = heads.conversation
        AND state NOT IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded')
    ORDER BY rid LIMIT 1
);

-- name: find
SELECT
    rid, turn_id, ordinal, state, attempt, spared, epoch, operation, policy, key, fingerprint, created_at,
    first_try_at, last_try_at, not_before, receipt, error, may_be_double, updated_at
FROM delivery
WHERE rid < :after
    AND state IN (SELECT value FROM json_each(:states))
    AND (:conversation IS NULL OR conversation = :conversation)
    AND (:channel IS NULL OR channel = :channel)
    AND (:before IS NULL OR updated_at < :before)
ORDER BY rid DESC LIMIT :limit;

-- name: find_of_turn
SELECT
    rid, turn_id, ordinal, state, attempt, spared, epoch, operation, policy, key, fingerprint, created_at,
    first_try_at, last_try_at, not_before, receipt, error, may_be_double, updated_at
FROM delivery
WHERE turn_id = :turn_id
    AND rid < :after
    AND state IN (SELECT value FROM json_each(:states))
    AND (:conversation IS NULL OR conversation = :conversation)
    AND (:channel IS NULL OR channel = :channel)
    AND (:before IS NULL OR updated_at < :before)
ORDER BY rid DESC LIMIT :limit;

-- name: find_undelivered
SELECT
    rid, turn_id, ordinal, state, attempt, spared, epoch, operation, policy, key, fingerprint, created_at,
    first_try_at, last_try_at, not_before, receipt, error, may_be_double, updated_at
FROM delivery
WHERE conversation = :conversation
    AND state IN ('failed', 'dead', 'unknown')
    AND rid < :after
    AND state IN (SELECT value FROM json_each(:states))
    AND (:channel IS NULL OR channel = :channel)
    AND (:before IS NULL OR updated_at < :before)
ORDER BY rid DESC LIMIT :limit;

-- name: prunable
-- By age, which has an index: the writer must not scan other rows. Deliveries of an open turn stay, because its next
-- ordinal is counted from them.
SELECT rid, turn_id, operation FROM delivery
WHERE state IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded')
    AND updated_at < :before
    AND state IN (SELECT value FROM json_each(:states))
    AND (:turn_id IS NULL OR turn_id = :turn_id)
    AND (:conversation IS NULL OR conversation = :conversation)
    AND (:channel IS NULL OR channel = :channel)
    AND (NOT :bodies OR NOT forgotten)
    AND NOT EXISTS (
        SELECT 1 FROM turn WHERE turn.turn_id = delivery.turn_id AND turn.state IN ('accepted', 'running')
    )
ORDER BY updated_at LIMIT :limit;

-- name: delete_delivery
DELETE FROM delivery WHERE rid = ?1;

-- name: delete_body
UPDATE delivery SET operation = ?2, forgotten = 1 WHERE rid = ?1;
