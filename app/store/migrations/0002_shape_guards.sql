-- A shape's guards, as far as they are not the usual ones: a JSON object.

ALTER TABLE shapes ADD COLUMN guards TEXT NOT NULL DEFAULT '{}';
