"""Makes the database's password and the first API key at the first `docker compose up`: no installation shares them.

Writes `postgres_password`, `database_url` and `api_key` into the volume that postgres, migrate, proxy, worker and beat
mount read-only. What is there stays: the password must go on fitting the data. SLIPSTREAM_POSTGRES_PASSWORD chooses it,
and SLIPSTREAM_BOOTSTRAP_KEY the key, which `migrate` makes in the database.
"""

import os
import secrets
import sys
from pathlib import Path
from urllib.parse import quote

KEY_START = "sk-slip-"  # as ledger/keys.py has it
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


def make_key(folder: Path, chosen: str = "") -> None:
    """Another chosen key is made beside the one before, which works until it is revoked."""
    if chosen or not (folder / "api_key").exists():
        write(folder / "api_key", chosen or KEY_START + secrets.token_urlsafe(32))


if __name__ == "__main__":
    make_credentials(Path(sys.argv[1]), os.environ.get("SLIPSTREAM_POSTGRES_PASSWORD", ""))
    make_key(Path(sys.argv[1]), os.environ.get("SLIPSTREAM_BOOTSTRAP_KEY", ""))
