"""What is asked of /v1/messages, Anthropic's shape, and of the routes that answer no completion."""

from typing import Any

from tests.corpus.chat import HUE
from tests.corpus.scenario import CHAT, MESSAGES, REASONING_SERVER, Scenario

ASKED = [{"role": "user", "content": "Name a colour."}]
TOOLS = [{"name": "sky", "description": "Paints it.", "input_schema": HUE, "strict": True}]
USED = {"type": "tool_use", "id": "toolu_1", "name": "sky", "input": {"hue": "red"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}


def _message(name: str, *, model: str | None = None, server: str = "", **body: Any) -> Scenario:
    whole = {"messages": ASKED, "max_tokens": 6, **body}
    given: dict[str, Any] = {"server": server} if server else {}
    body = {key: value for key, value in whole.items() if value is not ...}
    return Scenario(f"messages_{name}", MESSAGES, body, model=model, **given)


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}, "max_tokens": 40}


SCENARIOS = [
    _message("plain"),
    _message("system", system=[{"type": "text", "text": "Be brief."}], temperature=0.0),
    _message("json_schema", **_schema(HUE)),
    _message("stop_sequence", **_schema({"const": "one two three"}), stop_sequences=["o thr"]),
    _message("tool_any", tools=TOOLS, tool_choice={"type": "any"}, max_tokens=90),
    _message("tool_result", tools=TOOLS, messages=[*ASKED, {"role": "assistant", "content": [USED]}, {"role": "user", "content": [RESULT]}]),
    _message("thinking", server=REASONING_SERVER),
    _message("refused_max_tokens", max_tokens=0),
    _message("refused_no_max_tokens", max_tokens=...),
    _message("refused_temperature", temperature=-1),
    _message("refused_schema", **_schema({"type": "nonsense"})),
    _message("refused_model", model="no-such@1"),
    _message("refused_no_messages", messages=...),
    _message("refused_long_prompt", messages=[{"role": "user", "content": "word " * 1100}]),
    Scenario("messages_count_tokens", f"{MESSAGES}/count_tokens", {"messages": ASKED}, is_single=True),
    Scenario("embeddings_refused", "/v1/embeddings", {"input": "hi"}, is_single=True),
    Scenario("score_refused", "/v1/score", {"text_1": "hi", "text_2": "ho"}, is_single=True),
    Scenario("models", "/v1/models", method="GET", is_single=True),
    Scenario("models_one", "/v1/models/SmolLM2-135M-Instruct", method="GET", is_single=True),
    Scenario("models_head", "/v1/models", method="HEAD", is_single=True),
    Scenario("models_options", "/v1/models", method="OPTIONS", is_single=True),
    Scenario("chat_options", CHAT, method="OPTIONS", is_single=True),
    Scenario("unknown_route", "/v1/nope", method="GET", is_single=True),
    Scenario("version", "/version", method="GET", is_single=True),
]  # fmt: skip
