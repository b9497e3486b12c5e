"""The bench of training: both sides get the same groups, and a missed target is said."""

import json
from pathlib import Path

from rich.console import Console

from bench.train import report
from bench.train.groups import advantages_of, read, samples_of, write
from bench.train.shapes import MEMBERS, SHAPES, exchanges_of, num_tree_nodes
from bench.train.trl_side import logged
from bench.train.usage import Usage
from trainer.grpo.packing import num_forwarded_tokens, pack
from trainer.settings import TrainerSettings


def row(shape: str, side: str, cpu_seconds: float, peak_mib: float) -> dict[str, object]:
    found = {"shape": shape, "side": side, "round": 1, "cpu_seconds": cpu_seconds, "peak_mib": peak_mib}
    found |= {"above_mib": peak_mib - 900, "grad_norm": 0.2}
    return found | {"num_forwarded_tokens": 101, "num_needed_tokens": 100} if side == "slipstream" else found


def test_shapes_are_what_the_issue_names_and_the_same_each_time() -> None:
    short, prompt, turns = (exchanges_of(shape) for shape in SHAPES)
    assert max(len(one.prompt_ids) for one in short) <= 32
    assert {len(one.prompt_ids) for one in prompt} == {512}
    assert len(prompt) == MEMBERS
    assert len(turns) == 8 * MEMBERS
    by_turn = {(one.turn, one.member): one for one in turns}
    for (turn, member), one in by_turn.items():
        if before := by_turn.get((turn - 1, member)):
            so_far = [*before.prompt_ids, *before.completion_ids]
            assert one.prompt_ids[: len(so_far)] == so_far
    assert exchanges_of(SHAPES[0]) == short


def test_what_is_forwarded_is_at_most_two_percent_more_than_is_needed() -> None:
    """As the trainer cuts it by default."""
    row_tokens = TrainerSettings.model_fields["row_tokens"].default
    for shape in SHAPES:
        exchanges = exchanges_of(shape)
        samples = samples_of(exchanges, [[-1.0] * len(one.completion_ids) for one in exchanges])
        assert num_forwarded_tokens(pack(samples, row_tokens)) <= 1.02 * num_tree_nodes(exchanges)


def test_trl_gets_each_exchange_once_with_its_own_reward(tmp_path: Path) -> None:
    exchanges = exchanges_of(SHAPES[2])
    write(tmp_path / "groups.json", exchanges, [[-1.0] * len(one.completion_ids) for one in exchanges])
    rows = json.loads((tmp_path / "groups.json").read_text(encoding="utf-8"))
    lines = [rows[start : start + MEMBERS] for start in range(0, len(rows), MEMBERS)]
    told = logged([str(number) for number in range(len(lines)) for _ in range(MEMBERS)], lines)
    assert told["completion_ids"] == [one.completion_ids for one in exchanges]
    assert told["prompt_ids"] == [one.prompt_ids for one in exchanges]
    assert told["reward"] == [one.reward for one in exchanges]
    assert read(tmp_path / "groups.json")[0] == exchanges


def test_the_advantages_of_a_group_sum_to_nothing() -> None:
    exchanges = exchanges_of(SHAPES[0])
    advantages = advantages_of(exchanges)
    for group in range(SHAPES[0].num_groups):
        mine = [a for a, one in zip(advantages, exchanges, strict=True) if one.group == group]
        assert abs(sum(mine)) < 1e-9
        assert any(mine)


def test_ratios_are_taken_within_a_round_and_a_missed_target_is_said() -> None:
    rows = [row("short", "slipstream", 10, 2000), row("short", "trl", 30, 4000)]
    figures = report.figures_of(rows, {"largest_error": 1e-5})
    assert (figures["short_speed"], figures["short_memory"]) == (3.0, 0.5)
    assert figures["forwarded_over_needed"] == 1.01
    missed = {verdict.target.figure for verdict in report.verdicts(figures) if not verdict.is_met}
    assert not missed
    slower = report.figures_of([row("short", "slipstream", 20, 3900), rows[1]], {"largest_error": 1e-3})
    missed = {verdict.target.figure for verdict in report.verdicts(slower) if not verdict.is_met}
    assert missed == {"short_speed", "short_memory", "gradient_error"}
    console = Console(record=True, width=150)
    report.show(console, slower, rows)
    assert "missed" in console.export_text()


def test_trl_without_checkpointing_is_told_beside_what_is_judged() -> None:
    rows = [
        row("short", side, seconds, 2000)
        for side, seconds in (("slipstream", 10), ("trl", 30), ("trl_keeping", 20))
    ]
    figures = report.figures_of(rows, {"largest_error": 1e-5})
    assert (figures["short_speed"], figures["short_speed_keeping"]) == (3.0, 2.0)


def test_usage_speaks_of_the_time_since_it_began() -> None:
    usage = Usage()
    block = bytearray(64 << 20)
    usage.begin()
    block += bytearray(32 << 20)
    found = usage.end()
    assert 20 < found["above_mib"] < 200
    assert 0 <= found["cpu_seconds"] < 10
