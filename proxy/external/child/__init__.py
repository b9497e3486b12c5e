"""What runs in the process that holds LiteLLM. Only the module `calls` and those who import it know that library."""
