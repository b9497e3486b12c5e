"""The real SDKs against a real proxy process: each is a worker that is told what to do and says what it saw."""
