"""Shadow siblings: what they are samples beside, and the runs that make them."""
