"""What is asked of /v1/completions."""

from typing import Any

from tests.corpus.scenario import COMPLETIONS, Scenario


def _completion(name: str, *, model: str | None = None, **body: Any) -> Scenario:
    defaults = {"prompt": "The sky is", "max_tokens": 5, "seed": 1, "temperature": 1.0}
    whole = {key: value for key, value in {**defaults, **body}.items() if value is not ...}
    return Scenario(f"completions_{name}", COMPLETIONS, whole, model=model)


def _forced(text: str) -> dict[str, Any]:
    return {"structured_outputs": {"choice": [text]}, "max_tokens": 40}


SCENARIOS = [
    _completion("plain"),
    _completion("end", **_forced("blue")),
    _completion("n2", n=2),
    _completion("two_prompts", prompt=["Hello", "The sky is"], n=2, max_tokens=3),
    _completion("ids_prompt", prompt=[504, 6376, 314]),
    _completion("ids_prompts", prompt=[[504, 6376, 314], [19556]], max_tokens=3),
    _completion("logprobs_0", logprobs=0),
    _completion("logprobs_2", logprobs=2, max_tokens=3),
    _completion("echo", echo=True, max_tokens=3),
    _completion("echo_logprobs", echo=True, logprobs=1, max_tokens=2),
    _completion("stop", **_forced("one two three four five"), stop=["o thr"]),
    _completion("unicode", **_forced("naïve 👋🏽 日本")),
    _completion("usage", streamed_with={"include_usage": True}),
    _completion("usage_continuous", streamed_with={"include_usage": True, "continuous_usage_stats": True}),
    _completion("refused_prompt", prompt=...),
    _completion("refused_temperature", temperature=-1),
    _completion("refused_model", model="no-such@1"),
    _completion("refused_logprobs", logprobs=100),
    _completion("refused_embeds", prompt_embeds="AAAA"),
    _completion("refused_long_prompt", prompt="word " * 1100),
]
