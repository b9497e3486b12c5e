"""A step of sft that somebody asked for: its wish is checked, and stored with it."""

from ledger.errors import StepArgumentError
from ledger.vocabulary import StepKind
from ledger.wishes import own_arguments, sft_wish
from trainer.beginning import Asked, Beginning, Refusal


def take(asked: Asked) -> Beginning | Refusal:
    """It claims no group: what it imitates may be learned from by reward as well."""
    arguments = own_arguments(asked.request.arguments)
    try:
        sft_wish(arguments)
    except StepArgumentError as error:
        return Refusal(str(error))
    return Beginning(StepKind.SFT, asked.settings.learning() | {"sft": arguments})
