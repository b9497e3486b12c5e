"""A step of dpo that somebody asked for: its wish is checked, and stored with it."""

from ledger.errors import StepArgumentError
from ledger.vocabulary import StepKind
from ledger.wishes import dpo_wish, own_arguments
from trainer.beginning import Asked, Beginning, Refusal


def take(asked: Asked) -> Beginning | Refusal:
    """It claims no group: what was compared may be learned from by reward as well."""
    arguments = own_arguments(asked.request.arguments)
    try:
        dpo_wish(arguments)
    except StepArgumentError as error:
        return Refusal(str(error))
    return Beginning(StepKind.DPO, asked.settings.learning() | {"dpo": arguments})
