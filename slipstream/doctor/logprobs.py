"""Do vLLM's recorded sampling logprobs agree with the trainer's own? If not, every gradient would be wrong."""

import os
from typing import Any

from ledger.errors import LedgerError
from slipstream.doctor.finding import Finding, good, note, wrong
from slipstream.running import Running, adopt

MAX_MEAN_DIFFERENCE = 1e-3
REMEDY = (
    "The server computes other probabilities than the trainer: compare SLIPSTREAM_BASE_MODEL, vLLM's --dtype and "
    "--logprobs-mode processed_logprobs; do not train on these rows."
)


def check_logprobs(running: Running) -> Finding:
    """Recompute the newest exchanges at the version that sampled them: mean |difference| at most 1e-3."""
    from transformers.utils.logging import disable_progress_bar

    from ledger.database import sync_engine, translated_errors
    from trainer.check_logprobs import check_logprobs as recompute
    from trainer.errors import TrainerError
    from trainer.settings import TrainerSettings

    disable_progress_bar()  # type: ignore[no-untyped-call]
    adopt(running)
    os.environ.setdefault("SLIPSTREAM_ADAPTERS", str(running.home / "adapters"))
    engine = sync_engine(running.require("DATABASE_URL"), pool_size=1)
    try:
        with translated_errors(), engine.connect() as connection:
            found = recompute(TrainerSettings.from_environment(), connection)
    except (LedgerError, TrainerError) as error:
        return wrong("logprobs", str(error), "Mend what the checks above name first.")
    finally:
        engine.dispose()
    if not found.num_tokens:
        return note("logprobs", "nothing trainable was captured yet", "Send some calls, then check again.")
    detail = (
        f"mean |sampling - recomputed| {found.mean_difference:.1e}, largest {found.max_difference:.1e}, over "
        f"{found.num_tokens} tokens of versions {', '.join(map(str, found.versions))}"
    )
    figures: dict[str, Any] = {
        "mean_difference": found.mean_difference,
        "max_difference": found.max_difference,
    }
    figures |= {"num_tokens": found.num_tokens, "versions": list(found.versions)}
    if found.mean_difference > MAX_MEAN_DIFFERENCE:
        return wrong("logprobs", detail, REMEDY, **figures)
    return good("logprobs", detail, **figures)
