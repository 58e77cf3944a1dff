-- A ledger as version 1 of the schema had it, written by that version: a delivery in every state, turns with and without
-- a message, and names with the separators `:`, `#` and `%`.

PRAGMA application_id = 0x7472616c;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
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
INSERT INTO "delivery" VALUES(16,'t-done',1,'telegram:1','telegram','delivered',1,0,1,'{"do":"post","target":{"channel":"telegram","chat":"1"},"body":{"text":"hello"}}','{"idempotency":{"kind":"unkeyed"},"on_unknown":"hold","on_dead":"skip","budget":20,"max_age_s":86400.0,"is_told":true}','JyapOm3KsVmLf4Tvq9qD',X'57D6024EBA247156A9629F2B97D611C3',1700000000.0,1700000001.0,1700000001.0,NULL,'{"message_id":"m1"}','',0,1700000002.0,0);
INSERT INTO "delivery" VALUES(32,'t-done',2,'telegram:1','telegram','failed',1,0,1,'{"do":"post","target":{"channel":"telegram","chat":"1"},"body":{"text":"hello"}}','{"idempotency":{"kind":"unkeyed"},"on_unknown":"hold","on_dead":"skip","budget":20,"max_age_s":86400.0,"is_told":true}','LLQ8MzK98-s8nnaqQBH2',X'57D6024EBA247156A9629F2B97D611C3',1700000000.0,1700000001.0,1700000001.0,NULL,NULL,'it is failed',0,1700000002.0,0);
INSERT INTO "delivery" VALUES(48,'t-done',3,'telegram:1','telegram','dead',1,0,1,'{"do":"post","target":{"channel":"telegram","chat":"1"},"body":{"text":"hello"}}','{"idempotency":{"kind":"unkeyed"},"on_unknown":"hold","on_dead":"skip","budget":20,"max_age_s":86400.0,"is_told":true}','LNHPny02n5wBlGVo4scO',X'57D6024EBA247156A9629F2B97D611C3',1700000000.0,1700000001.0,1700000001.0,NULL,NULL,'it is dead',0,1700000002.0,0);
INSERT INTO "delivery" VALUES(64,'t-done',4,'telegram:1','telegram','cancelled',1,0,1,'{"do":"post","target":{"channel":"telegram","chat":"1"},"body":{"text":"hello"}}','{"idempotency":{"kind":"unkeyed"},"on_unknown":"hold","on_dead":"skip","budget":20,"max_age_s":86400.0,"is_told":true}','3TIBaU8lqARhYBb34uEQ',X'57D6024EBA247156A9629F2B97D611C3',1700000000.0,1700000001.0,1700000001.0,NULL,NULL,'it is cancelled',0,1700000002.0,0);
INSERT INTO "delivery" VALUES(80,'t-done',5,'telegram:1','telegram','superseded',1,0,1,'{"do":"post","target":{"channel":"telegram","chat":"1"},"body":{"text":"hello"}}','{"idempotency":{"kind":"unkeyed"},"on_unknown":"hold","on_dead":"skip","budget":20,"max_age_s":86400.0,"is_told":true}','GFGqZ6IpiGosHGDfNHKR',X'57D6024EBA247156A9629F2B97D611C3',1700000000.0,1700000001.0,1700000001.0,NULL,NULL,'it is superseded',0,1700000002.0,0);
INSERT INTO "delivery" VALUES(96,'t-done',6,'telegram:1','telegram','unknown',1,0,1,'{"do":"post","target":{"channel":"telegram","chat":"1"},"body":{"text":"hello"}}','{"idempotency":{"kind":"unkeyed"},"on_unknown":"hold","on_dead":"skip","budget":20,"max_age_s":86400.0,"is_told":true}','geGNA3n9QLJMarKP1r_H',X'57D6024EBA247156A9629F2B97D611C3',1700000000.0,1700000001.0,1700000001.0,NULL,NULL,'no answer',0,1700000003.0,0);
INSERT INTO "delivery" VALUES(112,'t-odd',1,'x:%y:50%#1#a#b%c','x:%y','retry',1,1,1,'{"do":"post","target":{"channel":"x:%y","chat":"50%#1","thread":"a#b%c"},"body":{"text":"hello"}}','{"idempotency":{"kind":"unkeyed"},"on_unknown":"hold","on_dead":"skip","budget":20,"max_age_s":86400.0,"is_told":true}','EyAopnsHKUcsxNy5wxM9',X'251A1C4E481F052060C681279EAD28C8',1700000000.0,1700000001.0,1700000001.0,1700000060.0,NULL,'',0,1700000002.0,0);
INSERT INTO "delivery" VALUES(128,'t-odd',2,'x:%y:50%#1#a#b%c','x:%y','planned',0,0,1,'{"do":"post","target":{"channel":"x:%y","chat":"50%#1","thread":"a#b%c"},"body":{"text":"hello"}}','{"idempotency":{"kind":"unkeyed"},"on_unknown":"hold","on_dead":"skip","budget":20,"max_age_s":86400.0,"is_told":true}','IrlPWJHnsEigQINdVMO4',X'251A1C4E481F052060C681279EAD28C8',1700000000.0,NULL,NULL,NULL,NULL,'',0,1700000000.0,0);
INSERT INTO "delivery" VALUES(144,'t-odd',3,'x:%y:50%#1#a#b%c','x:%y','planned',0,0,1,'{"do":"post","target":{"channel":"x:%y","chat":"50%#1","thread":"a#b%c"},"body":{"text":"hello"}}','{"idempotency":{"kind":"unkeyed"},"on_unknown":"hold","on_dead":"skip","budget":20,"max_age_s":86400.0,"is_told":true}','paGKo_NVIM3OcHpa-rAJ',X'251A1C4E481F052060C681279EAD28C8',1700000000.0,NULL,NULL,NULL,NULL,'',0,1700000000.0,0);
INSERT INTO "delivery" VALUES(160,'t-direct',1,'matrix:#room','matrix','sending',1,0,1,'{"do":"post","target":{"channel":"matrix","chat":"#room"},"body":{"text":"hello"}}','{"idempotency":{"kind":"unkeyed"},"on_unknown":"hold","on_dead":"skip","budget":20,"max_age_s":86400.0,"is_told":true}','NsTa6rORKwkuV3EOaHUm',X'DDEC2F0A646E27399F37EC1268562C25',1700000000.0,1700000001.0,1700000001.0,NULL,NULL,'',0,1700000001.0,0);
INSERT INTO "delivery" VALUES(176,'t-direct',2,'matrix:#room','matrix','planned',0,0,1,'{"do":"post","target":{"channel":"matrix","chat":"#room"},"body":{"text":"hello"}}','{"idempotency":{"kind":"unkeyed"},"on_unknown":"hold","on_dead":"skip","budget":20,"max_age_s":86400.0,"is_told":true}','dQCwJxpKSz8b89jynah1',X'DDEC2F0A646E27399F37EC1268562C25',1700000000.0,NULL,NULL,NULL,NULL,'',0,1700000000.0,0);
INSERT INTO "delivery" VALUES(192,'t-sending',1,'telegram:1','telegram','sending',1,0,1,'{"do":"post","target":{"channel":"telegram","chat":"1"},"body":{"text":"hello"}}','{"idempotency":{"kind":"unkeyed"},"on_unknown":"hold","on_dead":"skip","budget":20,"max_age_s":86400.0,"is_told":true}','b6-urndkR3OWykrH1ieE',X'57D6024EBA247156A9629F2B97D611C3',1700000000.0,1700000001.0,1700000001.0,NULL,NULL,'',0,1700000001.0,0);
INSERT INTO "delivery" VALUES(208,'t-slack',1,'slack:C1#17.5','slack','ambiguous',1,0,1,'{"do":"post","target":{"channel":"slack","chat":"C1","thread":"17.5"},"body":{"text":"hello"}}','{"idempotency":{"kind":"unkeyed"},"on_unknown":"hold","on_dead":"skip","budget":20,"max_age_s":86400.0,"is_told":true}','feV7v3cRyJaZ2o4Jz3Q_',X'D6CACDB00247AD13D14520BDD9EB7072',1700000000.0,1.0,1.0,NULL,NULL,'',0,2.0,0);
CREATE TABLE inbound (
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    event_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    seen_at REAL NOT NULL,
    PRIMARY KEY (channel, account, event_id)
) WITHOUT ROWID;
INSERT INTO "inbound" VALUES('telegram','bot','e-empty','t-empty',1700000000.0);
INSERT INTO "inbound" VALUES('telegram','bot','e-t-done','t-done',1700000000.0);
INSERT INTO "inbound" VALUES('telegram','bot','e-waiting','t-waiting',1700000000.0);
INSERT INTO "inbound" VALUES('x:%y','bot','e-t-odd','t-odd',1700000000.0);
CREATE TABLE ledger (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    ledger_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    restored_epoch INTEGER NOT NULL,
    commits INTEGER NOT NULL
);
INSERT INTO "ledger" VALUES(1,'703f0e09e7d3ef28dfd748d550c0c35e',1,0,32);
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
INSERT INTO "turn" VALUES('t-done','{"channel":"telegram","chat":"1"}','done','question of t-done','{"text":"","message_id":null,"is_stream":false,"after":0}',1,1,1700000000.0);
INSERT INTO "turn" VALUES('t-odd','{"channel":"x:%y","chat":"50%#1","thread":"a#b%c"}','running','question of t-odd','{"text":"and so on","message_id":"m9","is_stream":false,"after":2}',1,1,1700000000.0);
INSERT INTO "turn" VALUES('t-waiting','{"channel":"telegram","chat":"1"}','accepted','it''s "waiting"
','{"text":"","message_id":null,"is_stream":false,"after":0}',0,1,1700000000.0);
INSERT INTO "turn" VALUES('t-empty','{"channel":"telegram","chat":"1"}','accepted','','{"text":"","message_id":null,"is_stream":false,"after":0}',0,1,1700000000.0);
INSERT INTO "turn" VALUES('t-direct','{"channel":"matrix","chat":"#room"}','running','typed','{"text":"","message_id":null,"is_stream":false,"after":0}',1,1,1700000000.0);
CREATE INDEX turn_open ON turn (state, epoch, turn_id) WHERE state IN ('accepted', 'running');
CREATE INDEX turn_over ON turn (updated_at) WHERE state NOT IN ('accepted', 'running');
CREATE INDEX inbound_turn ON inbound (turn_id);
CREATE INDEX delivery_open ON delivery (conversation)
WHERE state NOT IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded');
CREATE INDEX delivery_final ON delivery (updated_at)
WHERE state IN ('delivered', 'failed', 'dead', 'unknown', 'cancelled', 'superseded');
CREATE INDEX delivery_left_out ON delivery (conversation) WHERE state IN ('failed', 'dead', 'unknown');
COMMIT;
