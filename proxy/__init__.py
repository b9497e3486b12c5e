"""The always-on half: serve, capture, accept rewards. Never imports torch, nor the trainer."""
