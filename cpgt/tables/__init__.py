"""Tables of records: the agreed schema, sources, encoding to arrays, checks, drafts of a schema."""
