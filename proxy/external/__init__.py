"""Models of other providers (`openai/…`): asked through LiteLLM, in a process of its own, with the operator's keys.

Invariant: no module outside `child` imports litellm, and the child starts only when the first such call comes.
"""
