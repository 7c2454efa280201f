-- The layout of the store. Times are milliseconds since 1970, UTC. Texts are UTF-8 exactly as typed, NUL included.

CREATE TABLE shapes (           -- every shape that was ever used, once for each text and name
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL,         -- GrammarSpec.hash: equal for all spellings of one language
    kind TEXT NOT NULL,
    whitespace TEXT NOT NULL,
    text TEXT NOT NULL,         -- kept as text, so that key order survives
    name TEXT
) STRICT;
CREATE INDEX shapes_by_hash ON shapes (hash);

CREATE TABLE models (           -- every model that ever replied, once for each state of its file
    id INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    info TEXT NOT NULL          -- engine.events.ModelInfo as JSON: template hash and vocabulary are in it
) STRICT;
CREATE INDEX models_by_fingerprint ON models (fingerprint);

CREATE TABLE chats (
    id INTEGER PRIMARY KEY AUTOINCREMENT,   -- never given twice: people write these numbers down
    title TEXT NOT NULL,
    system TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    pinned INTEGER NOT NULL DEFAULT 0,
    trashed_at INTEGER,
    leaf_id INTEGER REFERENCES messages (id) ON DELETE SET NULL,    -- the end of the path that is shown
    draft TEXT NOT NULL DEFAULT '',                                 -- typed and not sent
    shape_id INTEGER REFERENCES shapes (id),                        -- the shape of the next reply
    shape_on INTEGER NOT NULL DEFAULT 0,
    shape_shown INTEGER NOT NULL DEFAULT 1,                         -- shown to the model
    settings TEXT NOT NULL DEFAULT '{}'                             -- JSON object
) STRICT;
CREATE INDEX chats_by_leaf ON chats (leaf_id);

CREATE TABLE messages (         -- a tree: several messages may answer one parent
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    chat_id INTEGER NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    parent_id INTEGER CHECK (parent_id < id),   -- so there are no rings, and parents come first by id
    position INTEGER NOT NULL,  -- order among siblings
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
    content TEXT NOT NULL,
    indexed TEXT,               -- what the search index reads instead, where the content holds NUL
    created_at INTEGER NOT NULL,
    trashed_at INTEGER,
    shape_id INTEGER REFERENCES shapes (id),    -- of a user message: shown with it; of a reply: enforced
    UNIQUE (chat_id, id),
    FOREIGN KEY (chat_id, parent_id) REFERENCES messages (chat_id, id)  -- no cascade: SQLite limits its depth
) STRICT;
CREATE INDEX messages_by_parent ON messages (chat_id, parent_id, position);
CREATE INDEX messages_by_shape ON messages (shape_id) WHERE shape_id IS NOT NULL;

CREATE TABLE attachments (      -- files and long pastes, beside what was typed
    id INTEGER PRIMARY KEY,
    chat_id INTEGER NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    message_id INTEGER REFERENCES messages (id) ON DELETE CASCADE,  -- NULL: belongs to the draft
    name TEXT NOT NULL,
    content TEXT NOT NULL
) STRICT;
CREATE INDEX attachments_by_chat ON attachments (chat_id);
CREATE INDEX attachments_by_message ON attachments (message_id);

CREATE TABLE replies (          -- what is known of a message with role 'assistant' beyond its text
    message_id INTEGER PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
    state TEXT NOT NULL CHECK (state IN ('generating', 'done')),
    writer TEXT,                -- while generating: the lock file of the process that writes it
    finish TEXT,
    error TEXT,
    reasoning TEXT,
    valid INTEGER CHECK (valid IN (0, 1)),
    seed INTEGER,
    sampling TEXT NOT NULL,     -- engine.protocol.Sampling as JSON
    options TEXT NOT NULL DEFAULT '{}',     -- JSON object: the rest of the request (max_tokens, stop, ...)
    model_id INTEGER REFERENCES models (id),
    stats TEXT,                 -- engine.events.Stats as JSON
    finished_at INTEGER,
    continued_from INTEGER REFERENCES messages (id) ON DELETE SET NULL
) STRICT;
CREATE INDEX replies_being_written ON replies (state) WHERE state = 'generating';
CREATE INDEX replies_by_continued_from ON replies (continued_from) WHERE continued_from IS NOT NULL;

CREATE TABLE reply_tokens (     -- apart, so that opening a chat does not read traces
    message_id INTEGER PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
    ids BLOB NOT NULL,          -- zlib of little-endian 32-bit ids; empty when the text was cut inside a token
    trace BLOB NOT NULL         -- zlib of a JSON object of columns: id, text, origin, allowed
) STRICT;

CREATE TABLE reply_chunks (     -- a reply while it is written: append-only, folded into the message at its end
    id INTEGER PRIMARY KEY,
    message_id INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
    text TEXT NOT NULL,
    reasoning TEXT NOT NULL,
    trace BLOB NOT NULL
) STRICT;
CREATE INDEX reply_chunks_by_message ON reply_chunks (message_id);

-- Search: three-character windows find any part of a text in any script. The tokenizer stops at NUL, hence `indexed`.
CREATE VIEW searchable AS SELECT id, coalesce(indexed, content) AS text FROM messages;
CREATE VIRTUAL TABLE message_index USING fts5(text, content='searchable', content_rowid='id', tokenize='trigram');
CREATE TRIGGER message_index_insert AFTER INSERT ON messages BEGIN
    INSERT INTO message_index (rowid, text) VALUES (new.id, coalesce(new.indexed, new.content));
END;
CREATE TRIGGER message_index_delete AFTER DELETE ON messages BEGIN
    INSERT INTO message_index (message_index, rowid, text)
    VALUES ('delete', old.id, coalesce(old.indexed, old.content));
END;
CREATE TRIGGER message_index_update AFTER UPDATE OF content, indexed ON messages BEGIN
    INSERT INTO message_index (message_index, rowid, text)
    VALUES ('delete', old.id, coalesce(old.indexed, old.content));
    INSERT INTO message_index (rowid, text) VALUES (new.id, coalesce(new.indexed, new.content));
END;
