"""What vLLM says of its load, and how it is read."""

import pytest

from trainer.siblings.load import Load, load_of

METRICS = """
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a}b"} 1.0
vllm:num_requests_running{engine="1",model_name="a}b"} 2.0
vllm:num_requests_waiting{engine="0",model_name="a}b"} 0.0 1796016627000
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 7.0
"""


def test_engines_are_added_up_and_other_metrics_left_out() -> None:
    assert load_of(METRICS) == Load(3, 0)


@pytest.mark.parametrize(("max_running", "is_idle"), [(2, False), (3, True)])
def test_running_calls_are_compared_with_the_limit(max_running: int, is_idle: bool) -> None:
    assert Load(3, 0).is_idle(max_running) is is_idle
    assert not Load(0, 1).is_idle(max_running)


@pytest.mark.parametrize(
    "metrics",
    ["", "<html>", METRICS.replace("requests_waiting{", "x{"), METRICS.replace("requests_running{", "x{")],
)
def test_a_server_that_does_not_say_is_not_known_to_be_idle(metrics: str) -> None:
    assert load_of(metrics) is None


@pytest.mark.parametrize("value", ["NaN", "many", ""])
def test_what_is_no_number_is_not_idle(value: str) -> None:
    load = load_of(METRICS.replace(" 1.0\n", f" {value}\n"))
    assert load is not None
    assert not load.is_idle(99)
