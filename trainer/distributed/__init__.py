"""One step computed by several processes that torchrun starts (docs/decisions/0027-several-devices.md)."""
