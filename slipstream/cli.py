"""The command line: which commands there are. What they do is in slipstream/commands/.

Every failure that a user can mend ends in one sentence on stderr and a non-zero exit code, never in a traceback.
"""

import sys

import typer
from pydantic import ValidationError
from rich.console import Console

from ledger.errors import LedgerError
from ledger.logs import configure_logs
from ledger.settings_problems import problems_of, refused
from slipstream.commands import act, diagnose, look, process, stack
from slipstream.commands.adapters import adapters
from slipstream.commands.audit import audit
from slipstream.commands.config import config
from slipstream.commands.erase import erase
from slipstream.commands.files import export, import_
from slipstream.commands.imitate import dpo, sft
from slipstream.commands.judge import judge
from slipstream.commands.keys import keys
from slipstream.commands.metrics import metrics
from slipstream.commands.pausing import pause, resume
from slipstream.commands.retention import retention
from slipstream.commands.status import status
from slipstream.commands.steps import steps
from slipstream.commands.train import train
from slipstream.errors import ChildFailedError, SlipstreamError

PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(
    name="slipstream",
    help="An OpenAI-compatible proxy that learns from the traffic that passes through it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.callback()(stack.choose_home)
app.command()(stack.up)
app.command()(stack.down)
app.command()(status)
app.command()(look.versions)
app.command()(steps)
app.command()(audit)
app.add_typer(keys, name="keys")
app.add_typer(metrics, name="metrics")
app.add_typer(adapters, name="adapters")
app.add_typer(retention, name="retention")
app.command(context_settings={"ignore_unknown_options": True})(act.reward)  # -0.5 is a value
app.command()(train)
app.command()(sft)
app.command()(dpo)
app.command()(pause)
app.command()(resume)
app.command()(judge)
app.command()(erase)
app.command()(export)
app.command("import")(import_)
app.command(context_settings=PASS_THROUGH)(look.psql)
app.command()(config)
app.command()(diagnose.doctor)
app.command()(process.proxy)
app.command()(process.worker)
app.command()(process.beat)
app.command()(process.migrate)


def main() -> None:
    configure_logs("command", "WARNING")  # stdout is what a command answers
    try:
        app()
    except ValidationError as error:
        fail(str(refused(problems_of(error))))
    except ChildFailedError as error:
        fail(
            f"{error}\n"
            + "\n".join(f"  | {line}" for line in error.last_lines)
            + f"\nThe whole log: {error.log}"
        )
    except (SlipstreamError, LedgerError) as error:
        fail(str(error))


def fail(message: str) -> None:
    Console(stderr=True).print(message, markup=False, highlight=False, soft_wrap=True)
    sys.exit(1)
