"""`make bench-train`: our learn beside TRL's GRPOTrainer on the same logged groups."""
