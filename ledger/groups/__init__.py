"""Groups: who joins which, when one is ready, and what it waits for."""
