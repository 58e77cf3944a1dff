-- Queries for the small values of the gateway.

-- name: store
INSERT INTO stored_value (kind, key, value) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET value = excluded.value;

-- name: delete_stored
DELETE FROM stored_value WHERE kind = ?1 AND key = ?2;

-- name: stored
SELECT key, value FROM stored_value WHERE kind = ?1 ORDER BY key;
