"""Every route but the data plane: models, rewards, reading, operating."""
