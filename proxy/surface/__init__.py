"""What a client may ask: one file a route of the data plane."""
