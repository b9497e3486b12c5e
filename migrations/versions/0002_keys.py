"""Keys get a name, and their column says what it holds: a plain SHA-256, of 32 random bytes.

Frozen once released. Adding a nullable column and comments rewrites nothing.

Revision ID: 0002
"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE api_keys ADD COLUMN name TEXT")
    op.execute("COMMENT ON COLUMN api_keys.name IS 'What its owner calls it.'")
    op.execute("COMMENT ON COLUMN api_keys.key_hash IS 'SHA-256 of the whole key.'")


def downgrade() -> None:
    op.execute("COMMENT ON COLUMN api_keys.key_hash IS 'Keyed hash of the whole key.'")
    op.execute("ALTER TABLE api_keys DROP COLUMN name")
