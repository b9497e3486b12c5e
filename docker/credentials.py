"""Makes the database's password at the first `docker compose up`, so that no installation shares a known one.

Writes `postgres_password` and `database_url` into the volume that postgres, migrate, proxy, worker and beat mount
read-only. What is there stays: the password must go on fitting the data. SLIPSTREAM_POSTGRES_PASSWORD chooses it.
"""

import os
import secrets
import sys
from pathlib import Path
from urllib.parse import quote

DATABASE_URL = "postgresql://slipstream:{password}@postgres:5432/slipstream"


def write(path: Path, text: str) -> None:
    """Whole or not at all; readable by each service's own user, inside the volume only."""
    aside = path.with_suffix(".new")
    aside.write_text(text, encoding="utf-8")
    aside.chmod(0o444)
    aside.rename(path)


def make_credentials(folder: Path, chosen: str = "") -> None:
    password_file = folder / "postgres_password"
    if not password_file.exists():
        write(password_file, chosen or secrets.token_urlsafe(32))
    password = password_file.read_text(encoding="utf-8")
    if chosen and chosen != password:
        sys.exit(
            "SLIPSTREAM_POSTGRES_PASSWORD differs from the password that this database was made with: "
            "unset it, or change both as docs/compose.md says"
        )
    write(folder / "database_url", DATABASE_URL.format(password=quote(password, safe="")))


if __name__ == "__main__":
    make_credentials(Path(sys.argv[1]), os.environ.get("SLIPSTREAM_POSTGRES_PASSWORD", ""))
