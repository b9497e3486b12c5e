"""Where figures are copied to besides Postgres: TensorBoard, W&B (docs/decisions/0028)."""
