"""The demo: an ordinary program runs against the embedded stack, and the model gets better."""
