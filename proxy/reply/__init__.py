"""What a model server answers: read, captured, and cut to what the client asked for."""
