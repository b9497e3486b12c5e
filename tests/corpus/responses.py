"""What is asked of /v1/responses."""

from typing import Any

from tests.corpus.chat import HUE, MOJIBAKE, ONE_CALL, THINKS
from tests.corpus.scenario import LOGPROBS, REASONING_SERVER, RESPONSES, Scenario

TOOLS = [{"type": "function", "name": "sky", "description": "Paints it.", "parameters": HUE, "strict": True}]
CALLED = {"type": "function_call", "call_id": "call-1", "name": "sky", "arguments": '{"hue": "red"}'}
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Red."}]}
ASKED = {"role": "user", "content": "Name a colour."}


def _response(name: str, *, model: str | None = None, server: str = "", is_single: bool = False, **body: Any) -> Scenario:  # fmt: skip
    defaults = {"input": "Name a colour.", "max_output_tokens": 6, "seed": 1, "temperature": 1.0}
    whole = {key: value for key, value in {**defaults, **body}.items() if value is not ...}
    given: dict[str, Any] = {"server": server} if server else {}
    return Scenario(f"responses_{name}", RESPONSES, whole, model=model, is_single=is_single, **given)


def _forced(text: str) -> dict[str, Any]:
    return {"structured_outputs": {"choice": [text]}, "max_output_tokens": 40}


SCENARIOS = [
    _response("plain"),
    _response("end", **_forced("hi there")),
    _response("unicode", **_forced(MOJIBAKE)),
    _response("stop", **_forced("one two three four five"), stop=["o thr"]),
    _response("instructions", instructions="Be brief.", metadata={"a": "b"}, user="u"),
    _response("logprobs", include=[LOGPROBS], top_logprobs=2, max_output_tokens=3),
    _response("messages", enable_response_messages=True),
    _response("second_turn", input=[ASKED, SAID, {"role": "user", "content": "Another."}]),
    _response("tool_auto", tools=TOOLS, structured_outputs={"regex": ONE_CALL}, max_output_tokens=90),
    _response("tool_required", tools=TOOLS, tool_choice="required", max_output_tokens=90),
    _response("tool_result", tools=TOOLS, input=[ASKED, CALLED, {"type": "function_call_output", "call_id": "call-1", "output": "done"}]),
    _response("json_schema", max_output_tokens=40, text={"format": {"type": "json_schema", "name": "hue", "schema": HUE}}),
    _response("unknown_fields", conversation="conv_1", return_token_ids=True, x_vendor=1, max_output_tokens=2),
    _response("reasoning", server=REASONING_SERVER, max_output_tokens=7, **THINKS),
    _response("refused_previous", previous_response_id="resp_1"),
    _response("refused_background", background=True, is_single=True),
    _response("refused_input", input=...),
    _response("refused_temperature", temperature=-1),
    _response("refused_schema", text={"format": {"type": "json_schema", "name": "x", "schema": {"type": "nonsense"}}}),
    _response("refused_model", model="no-such@1"),
    _response("refused_image", input=[{"role": "user", "content": [{"type": "input_image", "image_url": "http://127.0.0.1:9/x"}]}]),
    _response("refused_long_prompt", input="word " * 1100),
    Scenario("responses_get", f"{RESPONSES}/resp_1", method="GET", is_single=True),
]  # fmt: skip
