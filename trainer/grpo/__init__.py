"""Pure arithmetic: advantages, samples, packing, loss. No I/O at all."""
