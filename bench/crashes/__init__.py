"""Crashes of a step: kill -9 at each transition, messages twice, brokers and clocks that jump. One version each, no gap."""
