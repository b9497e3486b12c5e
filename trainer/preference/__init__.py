"""Steps of kind dpo: of two answers to one prompt the preferred one becomes likelier than the other (docs/decisions/0026)."""
