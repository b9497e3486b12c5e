"""A ledger that holds everything that one may, as a file, and back."""

import math
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from ledger.exports.export import export
from ledger.exports.filters import Filters
from ledger.identifiers import new_id
from ledger.imports.file import Importer
from ledger.imports.lines import Line, json_lines, parquet_lines
from ledger.imports.report import Report
from ledger.recording import record_calls
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import ExchangeStatus, Reason
from tests.ledger.calls import a_call, a_choice, n_call, sent
from tests.ledger.learned import fill

ODD = "a\x00b\ud800c\x1ad\U0001f600 \u2028 é"
FORMATS = pytest.mark.parametrize("format_", ["jsonl", "parquet"])


def exported(engine: Engine, path: Path, filters: Filters | None = None) -> dict[str, Any]:
    return export(
        engine, str(path), None, filters or Filters(), requested_by="test", progress=lambda *_: None
    )


def read(path: Path) -> list[dict[str, Any]]:
    return [line.value for line in lines_of(path) if isinstance(line.value, dict)]


def lines_of(path: Path) -> list[Line]:
    if path.suffix == ".parquet":
        return list(parquet_lines(path))
    with path.open("rb") as file:
        return list(json_lines(file))


def imported(engine: Engine, path: Path, **target: Any) -> Report:
    return Importer(engine, **target).run(lines_of(path), lambda: None)


def odd_call() -> Any:
    odd = {"text": ODD, "nan": math.nan, "inf": [math.inf, -math.inf], "big": 1 << 70, "null": None, ODD: 0.1}
    return a_call(
        external_id=ODD.replace("\x00", ""),
        messages=[{"role": "user", "content": ODD, "extra": odd}],
        request={"user": ODD, "metadata": {"k": ODD}, "odd": odd},
        temperature=math.nan,
        seed=(1 << 63) - 1,
        client_name=ODD,
        error={"message": ODD},
        prompt_ids=[0, (1 << 31) - 1],
        choices=[a_choice(text=ODD, response={"message": {"content": ODD, "odd": odd}},
                          sampling_logprobs=[math.nan, -math.inf, -1e-30])],
    )  # fmt: skip


def seeded(engine: Engine) -> None:
    """Everything that a ledger may hold: turns, choices, groups, rewards, a step, odd text, teacher data, retries."""
    with engine.begin() as connection:
        fill(connection)
        record_calls(connection, [
            odd_call(),
            a_call(version=None, untrainable_reason=Reason.EXTERNAL_MODEL, prompt_ids=None),
            a_call(is_explored=True), a_call(is_shadow=True),
            n_call(2, group="task", num_prompts=1),
            sent(0), sent(5, num_retries=1), sent(9, num_retries=2, status=ExchangeStatus.FAILED),
            a_call(num_choices=4, num_prompts=2, choices=[a_choice(k, prompt_ids=[1, k // 2]) for k in range(4)]),
        ])  # fmt: skip
        post_reward(connection, "default", RewardPost("talk", metric="comment", content=ODD, source=ODD))
        post_reward(connection, "default", RewardPost("talk", value=0.25, comment=ODD, idempotency_id="i"))
        half = RewardPost(
            "talk", metric="stars", value=3.0, is_final=False, is_whole=True, comparison_id=new_id()
        )
        post_reward(connection, "default", half)
