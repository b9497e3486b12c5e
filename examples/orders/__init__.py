"""Reading order numbers: a task that a small model half fails at, and a program that does it on the openai SDK."""
