"""The ledger under load: how fast rows come in, how soon SQL sees them, and a million of them asked twenty questions."""
