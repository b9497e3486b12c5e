"""What the figures of the gateway must reach."""

from bench.verdict import Target, Verdict, judge

TARGETS = (
    Target("unstreamed_cpu_over_nginx", "CPU of a request, times nginx's", at_most=12),
    Target("unstreamed_cpu_litellm_over_ours", "CPU of a request, LiteLLM's times ours", at_least=40),
    Target("chunk_cpu_over_nginx", "CPU of a streamed chunk, times nginx's", at_most=2),
    Target("chunk_cpu_litellm_over_ours", "CPU of a streamed chunk, LiteLLM's times ours", at_least=10),
    Target("latency_added_slipstream_median_ms", "ms added to a request, median", at_most=0.6),
    Target("latency_added_slipstream_p99_ms", "ms added to a request, p99", at_most=3),
    Target("latency_added_litellm_over_ours", "ms added to a request, LiteLLM's times ours", at_least=10),
    Target("first_token_added_slipstream_median_ms", "ms added to the first token, median", at_most=0.6),
    Target("first_token_added_slipstream_p99_ms", "ms added to the first token, p99", at_most=3),
    Target(
        "first_token_added_litellm_over_ours",
        "ms added to the first token, LiteLLM's times ours",
        at_least=10,
    ),
    Target("streams_slipstream_num_open", "streams open at once in one process", at_least=3000),
    Target("streams_slipstream_kib_per_stream", "KiB of memory a stream, above idle", at_most=60),
    Target("workers_2_over_1", "throughput of two processes, times one's", at_least=1.05),
    Target("long_prompt_slipstream_ratio", "CPU of a 150 KB prompt, times a 2 KB one's", at_most=3),
    Target("num_failed", "calls that failed, or whose reply was not whole", at_most=0),
)


def verdicts(figures: dict[str, float]) -> list[Verdict]:
    return judge(TARGETS, figures)
