"""What a call costs on its way through: Slipstream between direct, nginx (the floor) and LiteLLM (in use today)."""
