"""The right answers of the queries about traffic, by plain loops: no SQL, no views.

Each takes the tasks and the moment since when (ms), and gives rows as the file prints them; `...` is not compared.
"""

from collections import Counter
from statistics import mean

from bench.ledger.world import LINES, REFUSAL, Exchange, Task, moment
from tests.ledger.plain import Rows, by, exchanges, percentile, week


def tokens_by_route(tasks: list[Task], since: int) -> Rows:
    found = by(lambda t, e: (*LINES[t.line], e.endpoint, e.version is None), exchanges(tasks, since))
    rows = []
    for key, pairs in found.items():
        prompt, completion = (
            sum(getattr(e, f"num_{kind}_tokens") for _, e in pairs) for kind in ("prompt", "completion")
        )
        cost = (prompt * 1 + completion * 2) / 1e6
        rows.append((*key, len(pairs), prompt, completion, completion / len(pairs), cost))
    return sorted(rows, key=lambda row: (row[0], row[1], -row[5], row[2]))


def tokens_per_day(tasks: list[Task], since: int) -> Rows:
    found = by(lambda t, e: (str(moment(e.at_ms).date()), *LINES[t.line]), exchanges(tasks, since))
    rows = [
        (
            *key,
            len(pairs),
            sum(e.num_prompt_tokens for _, e in pairs),
            sum(e.num_completion_tokens for _, e in pairs),
        )
        for key, pairs in sorted(found.items())
    ]
    return sorted(rows, key=lambda row: row[0], reverse=True)


def unanswered_tool_calls(tasks: list[Task], since: int) -> Rows:
    asking = [
        (t, e) for t, e in exchanges(tasks, since) if e.tool_call and e.id == max(x.id for x in t.exchanges)
    ]
    found = by(lambda t, _: LINES[t.line], asking)
    rows = [(*key, "look_up", len(p), max(f"{t.id:032x}" for t, _ in p)) for key, p in found.items()]
    return sorted(rows, key=lambda row: -row[3])


def drift(tasks: list[Task], since: int) -> Rows:
    answers = [
        (t, e) for t, e in exchanges(tasks, since) if e.status == "completed" and e.version is not None
    ]
    rows = []
    for key, pairs in by(lambda t, e: (week(e.at_ms), *LINES[t.line]), answers).items():
        versions = [e.version for _, e in pairs if e.version is not None]
        refused = mean(e.text == REFUSAL for _, e in pairs)
        finished = Counter(e.finish_reason for _, e in pairs)
        shares = (refused, finished["length"] / len(pairs), finished["tool_calls"] / len(pairs))
        tokens = mean(e.num_completion_tokens for _, e in pairs)
        rows.append((*key, min(versions), max(versions), len(pairs), tokens, *shares))
    return sorted(rows, key=lambda row: (row[1], row[2], row[0]))


def retries(tasks: list[Task], since: int) -> Rows:
    first = {e.id: e for _, e in exchanges(tasks, 0)}
    again = [(t, e) for t, e in exchanges(tasks, since) if e.num_retries]
    rows = []
    for key, pairs in by(
        lambda t, e: (*LINES[t.line], e.endpoint, *_end(first[e.retry_of or 0])), again
    ).items():
        num_answered = sum(e.status == "completed" for _, e in pairs)
        seconds = mean((e.at_ms - first[e.retry_of or 0].at_ms) / 1000 for _, e in pairs)
        rows.append((*key, len(pairs), num_answered, seconds))
    return sorted(rows, key=lambda row: (-row[5], *row[:4], row[4] or "~"))


def _end(exchange: Exchange) -> tuple[str, str | None]:
    return exchange.status, exchange.error


def latency_by_version(tasks: list[Task], since: int) -> Rows:
    answers = [
        (t, e) for t, e in exchanges(tasks, since) if e.status == "completed" and e.version is not None
    ]
    rows = []
    for key, pairs in by(lambda t, e: (*LINES[t.line], e.version), answers).items():
        first, total = [e.first_token_seconds for _, e in pairs], [e.total_seconds for _, e in pairs]
        shares = (
            percentile(first, 0.5),
            percentile(first, 0.99),
            *(percentile(total, p) for p in (0.5, 0.95, 0.99)),
        )
        rows.append((*key, len(pairs), *shares))
    return sorted(rows)


def slowest_calls(tasks: list[Task], since: int) -> Rows:
    slowest = sorted(exchanges(tasks, since), key=lambda pair: (-pair[1].total_seconds, pair[1].id))[:20]
    rows = []
    for t, e in slowest:
        project, policy = LINES[t.line]
        model = None if e.version is None else f"{policy}@{e.version}"
        speed = e.num_completion_tokens / (e.total_seconds - e.first_token_seconds)
        known = (
            project,
            policy,
            f"{e.id:032x}",
            model,
            e.endpoint,
            e.status,
            e.total_seconds,
            e.first_token_seconds,
        )
        rows.append((*known, e.num_prompt_tokens, e.num_completion_tokens, speed))
    return rows


def broken_calls(tasks: list[Task], since: int) -> Rows:
    broken = [(t, e) for t, e in exchanges(tasks, since) if e.status != "completed"]
    rows = []
    for key, pairs in by(lambda t, e: (*LINES[t.line], *_end(e), e.turn % 2 == 0), broken).items():
        seconds, num_tokens = (
            [e.total_seconds for _, e in pairs],
            sum(e.num_completion_tokens for _, e in pairs),
        )
        counts = (len(pairs), percentile(seconds, 0.5), num_tokens, len({t.id for t, _ in pairs}))
        rows.append((*key, *counts))
    return sorted(rows, key=lambda row: (-row[5], *row[:3], row[3] or "~", row[4]))


def untrainable(tasks: list[Task], since: int) -> Rows:
    every = exchanges(tasks, since)
    whole = Counter(t.line for t, _ in every)
    rows = []
    for (line, reason), pairs in by(lambda t, e: (t.line, e.reason), every).items():
        tokens = sum(e.num_completion_tokens for _, e in pairs)
        rows.append((*LINES[line], reason or "trainable", len(pairs), 100 * len(pairs) / whole[line], tokens))
    return sorted(rows, key=lambda row: (row[0], row[1], -row[3], row[2]))
