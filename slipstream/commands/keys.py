"""`slipstream keys`: make a key (shown once), list what may be said about keys, revoke one."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from ledger.vocabulary import DEFAULT_PROJECT, Scope
from slipstream.commands.look import JsonOption, ledger_connection, show_table

keys = typer.Typer(no_args_is_help=True, help="Make, list and revoke the keys of the data plane.")


@keys.command()
def create(
    scope: Annotated[list[Scope] | None, typer.Option(help="What it may do; repeat it.", show_default="infer, reward")] = None,
    project: Annotated[str, typer.Option(help="Whose key it is; a new project is made.")] = DEFAULT_PROJECT,
    name: Annotated[str | None, typer.Option(help="What you call it.")] = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Make a key and show it, this once. The key alone goes to stdout."""
    from ledger.keys import create_key, read_keys

    with ledger_connection() as connection:
        is_first = not read_keys(connection).has_rows
        key, info = create_key(connection, scope or [Scope.INFER, Scope.REWARD], project=project, name=name)
        connection.commit()
    if as_json:
        typer.echo(json.dumps({"key": key, **asdict(info)}, default=str))
        return
    typer.echo(key)
    may = ", ".join(info.scopes)
    typer.echo(
        f"This key is shown once and stored as a hash: keep it now. It may {may} in project {info.project}; "
        f"`slipstream keys revoke {info.prefix}` ends it.",
        err=True,
    )
    if is_first:
        typer.echo("It is the first: from now on every call needs a key.", err=True)


@keys.command("list")
def list_(as_json: JsonOption = False) -> None:
    """All keys, the newest first, revoked ones too. Keys and hashes are not among what is shown."""
    from ledger.keys import list_keys

    with ledger_connection() as connection:
        found = [asdict(info) for info in list_keys(connection)]
    if as_json:
        typer.echo(json.dumps(found, default=str))
    elif not found:
        typer.echo("There is no key: on loopback any key is accepted.")
    else:
        columns = ["prefix", "name", "project", "scopes", "created_at", "revoked_at", "id"]
        show_table(columns, [[_shown(key[column]) for column in columns] for key in found])


@keys.command()
def revoke(
    key: Annotated[str, typer.Argument(help="Its id or prefix, as `list` shows them, or the whole key.")],
    as_json: JsonOption = False,
) -> None:
    """End a key: within a second no proxy accepts it."""
    from ledger.keys import revoke_key

    with ledger_connection() as connection:
        info = revoke_key(connection, key)
        connection.commit()
    if as_json:
        typer.echo(json.dumps(asdict(info), default=str))
    else:
        typer.echo(f"{info.prefix}… of project {info.project} is revoked.")


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return "" if value is None else str(value)
