"""A step of sft or dpo that somebody asked for: its wish is checked, and stored with it."""

from ledger.errors import StepArgumentError
from ledger.wishes import WISHES, own_arguments
from trainer.beginning import Asked, Beginning, Refusal


def take(asked: Asked) -> Beginning | Refusal:
    """It claims no group: what it imitates, or what was compared, may be learned from by reward as well."""
    kind, arguments = asked.request.kind, own_arguments(asked.request.arguments)
    try:
        WISHES[kind](arguments)
    except StepArgumentError as error:
        return Refusal(str(error))
    return Beginning(kind, asked.settings.learning() | {str(kind): arguments})
