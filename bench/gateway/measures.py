"""What is measured, one function a measure. Each interleaves its contenders, round after round."""

from collections.abc import Callable

from bench.gateway.bench import Bench
from bench.gateway.figures import FLOOR, NOTHING, OURS, TODAY
from bench.gateway.outcome import Load
from bench.gateway.peak import Peak

LITTLE = 2048  # bytes of a prompt
MUCH = 150_000
REPLY_TOKENS = 64
_ALL = (NOTHING, FLOOR, OURS, TODAY)


def load(num_connections: int, num_calls: float, num_tokens: int = REPLY_TOKENS, **more: float) -> Load:
    return Load(0, num_connections, max(num_connections, int(num_calls)), num_tokens, **more)  # type: ignore[arg-type]


def unstreamed(bench: Bench) -> None:
    """CPU of a request at a moderate load: 8 clients, vLLM takes 50 ms, so at most 160 requests a second."""
    bench.pace(reply_seconds=0.05)
    rates = {TODAY: 20}
    for round_ in range(bench.plan.num_rounds):
        for contender in bench.named(*_ALL):
            calls = rates.get(contender.name, 150) * bench.plan.seconds
            bench.turn("unstreamed", contender, round_, load(8, calls))


def saturated(bench: Bench) -> None:
    """The same with a vLLM that answers at once: each contender as fast as it can."""
    bench.pace()
    rates = {NOTHING: 4000, FLOOR: 4000, TODAY: 20}
    for round_ in range(bench.plan.num_rounds):
        for contender in bench.named(*_ALL):
            calls = rates.get(contender.name, 600) * bench.plan.seconds
            bench.turn("saturated", contender, round_, load(8, calls))


def chunk(bench: Bench) -> None:
    """CPU of a streamed chunk at the same rate for all: 25 streams of 20 tokens a second."""
    bench.pace(event_seconds=0.05)
    for round_ in range(bench.plan.num_rounds):
        for contender in bench.named(FLOOR, OURS, TODAY):
            streams = load(25, 25, bench.plan.stream_tokens, is_streamed=True, ramp_seconds=0.05)
            bench.turn("chunk", contender, round_, streams)


def latency(bench: Bench) -> None:
    """One connection, vLLM answers at once: what is above direct was added."""
    bench.pace()
    _one_by_one(bench, "latency", lambda calls: load(1, calls))


def first_token(bench: Bench) -> None:
    """One connection, short streams: from the request to the first text."""
    bench.pace(event_seconds=0.002)
    _one_by_one(bench, "first_token", lambda calls: load(1, calls, 4, is_streamed=True))


def _one_by_one(bench: Bench, measure: str, sized: Callable[[float], Load]) -> None:
    for round_ in range(bench.plan.num_rounds + 2):
        for contender in bench.named(*_ALL):
            calls = bench.plan.num_latency_calls
            bench.turn(measure, contender, round_, sized(calls / 4 if contender.name == TODAY else calls))


def long_prompt(bench: Bench) -> None:
    """CPU of a request with a prompt of 150 KB against one of 2 KB, both at no more than 40 a second."""
    bench.pace(reply_seconds=0.1)
    for round_ in range(bench.plan.num_rounds):
        for contender in bench.named(FLOOR, OURS):
            for measure, size in (("prompt_2kb", LITTLE), ("prompt_150kb", MUCH)):
                calls = load(4, 35 * bench.plan.seconds, prompt_bytes=size)
                bench.turn(measure, contender, round_, calls)


def streams(bench: Bench) -> None:
    """3,000 streams at once in one fresh process, one token a second each. Memory above the idle process."""
    many, tokens = bench.plan.num_concurrent_streams, bench.plan.concurrent_stream_tokens
    with bench.stage.another() as fresh:
        assert fresh.tree
        bench.pace()
        bench.warm([fresh], load(8, 400))
        bench.pace(event_seconds=1.0)
        idle_kib = fresh.tree.memory_kib()
        with Peak(fresh.tree, lambda: int(bench.ask("counts")["num_open_streams"])) as peak:
            bench.turn("streams", fresh, 0, load(many, many, tokens, is_streamed=True, ramp_seconds=6.0))
    bench.rows[-1].values.update(
        num_open=peak.num_open,
        idle_mib=idle_kib / 1024,
        peak_mib=peak.memory_kib / 1024,
        kib_per_stream=(peak.memory_kib - idle_kib) / max(1, peak.num_open),
    )


def workers(bench: Bench) -> None:
    """Throughput with 32 clients of one process and of two."""
    with (
        bench.stage.another(f"{OURS}-1") as one,
        bench.stage.another(f"{OURS}-2", num_workers=2) as two,
    ):
        bench.pace()
        bench.warm([one, two], load(32, 600))
        for round_ in range(bench.plan.num_rounds):
            for contender in (one, two):
                bench.turn("workers", contender, round_, load(32, 800 * bench.plan.seconds))


ALONE = {"streams": streams, "workers": workers}  # each starts proxies of its own
MEASURES: dict[str, Callable[[Bench], None]] = {
    "unstreamed": unstreamed,
    "saturated": saturated,
    "chunk": chunk,
    "latency": latency,
    "first_token": first_token,
    "long_prompt": long_prompt,
    **ALONE,
}
