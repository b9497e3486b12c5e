"""Programs that use Slipstream as its users do."""
