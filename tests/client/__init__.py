"""The small client against the real proxy, with the real openai SDK."""
