"""Who may call: keys, scopes, and how much at once. Decided on headers and the raw path alone, before a body is read."""
