"""What a user types or imports: the command line, the small client, the embedded local stack."""
