"""Calls to the base model beside calls to adapters, in one batch of the real vLLM (docs/decisions/0006-vllm-plugin.md)."""

from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

from slipstream.http import call
from tests.loop.noise import noise_adapter
from tests.loop.stack import Stack

NUM_SLOTS = 5  # --max-loras: kept versions + 1
PROMPT = "What is the capital of France?"


def ask_vllm(stack: Stack, path: str, body: dict[str, Any]) -> Any:
    status, answer = call(stack.upstream_url + path, body, seconds=180)
    assert status == 200, answer
    return answer


def greedy_logprobs(stack: Stack, model: str, max_tokens: int = 4) -> list[float]:
    body = {
        "model": model, "messages": [{"role": "user", "content": PROMPT}], "max_tokens": max_tokens, "temperature": 0,
        "logprobs": True, "top_logprobs": 0, "ignore_eos": True,
    }  # fmt: skip
    reply = ask_vllm(stack, "/v1/chat/completions", body)
    return [token["logprob"] for token in reply["choices"][0]["logprobs"]["content"]]


def test_the_base_model_is_itself_beside_adapters(stack: Stack, tmp_path: Any) -> None:
    """I2, I8: version 0 is answered with no adapter's weights, also when every slot for adapters is taken."""
    base = str(stack.model)
    alone = greedy_logprobs(stack, base)
    for index in range(NUM_SLOTS):
        path = noise_adapter(stack.model, tmp_path / f"noise@{index}", seed=index)
        ask_vllm(stack, "/v1/load_lora_adapter", {"lora_name": f"noise@{index}", "lora_path": str(path)})
    with ThreadPoolExecutor(NUM_SLOTS) as pool:
        noisy = [
            pool.submit(greedy_logprobs, stack, f"noise@{index}", max_tokens=60) for index in range(NUM_SLOTS)
        ]
        wait(noisy, timeout=2)  # they run now
        beside = greedy_logprobs(stack, base)
        num_running = sum(not reply.done() for reply in noisy)
        adapted = [reply.result(180)[0] for reply in noisy]
    for index in range(NUM_SLOTS):
        ask_vllm(stack, "/v1/unload_lora_adapter", {"lora_name": f"noise@{index}"})
    assert num_running > 0, "nothing ran beside the base model"
    assert min(abs(logprob - alone[0]) for logprob in adapted) > 0.05, "the adapters change nothing"
    assert beside == pytest.approx(alone, abs=1e-3)


def test_seeds_outlive_prompts_that_are_computed_in_parts(stack: Stack) -> None:
    """I8: six prompts of 900 tokens are more than one batch of 2,048. vLLM 0.32's engine died of it on a CPU."""

    def ask(index: int) -> Any:
        prompt = f"{index} " + "word " * 900
        body = {"model": str(stack.model), "prompt": prompt, "max_tokens": 2, "temperature": 1, "seed": index}
        return ask_vllm(stack, "/v1/completions", body)

    with ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(ask, range(6)))
    assert [reply["usage"]["prompt_tokens"] > 900 for reply in replies] == [True] * 6
