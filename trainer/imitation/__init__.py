"""Steps of kind sft: answers that are imitated, token by token (docs/decisions/0026)."""
