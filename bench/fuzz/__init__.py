"""Bad input, for a bounded time: nothing that a client sends makes a 500, a hang, a crash or a lost row."""
