"""What is asked of /v1/chat/completions.

The tiny model calls tools and writes emoji only because a grammar leaves it no other way.
"""

from typing import Any

from tests.corpus.scenario import CHAT, REASONING_SERVER, Scenario

USER = {"role": "user", "content": "Name a colour."}
MESSAGES = [{"role": "system", "content": "Be brief."}, USER]
HUE = {
    "type": "object",
    "properties": {"hue": {"type": "string", "enum": ["red", "blue"]}},
    "required": ["hue"],
    "additionalProperties": False,
}
SKY: dict[str, Any] = {"name": "sky", "description": "Paints it.", "parameters": HUE, "strict": True}
TOOLS = [{"type": "function", "function": SKY}]
ONE_CALL = r'<tool_call>\n\{"name": "sky", "arguments": \{"hue": "(red|blue)"\}\}\n</tool_call>'
FIRST_CALL = {"id": "call-1", "type": "function", "function": {"name": "sky", "arguments": '{"hue": "red"}'}}
MOJIBAKE = "naïve 👋🏽 日本"
# On the reasoning server token 10 is </think>. Each word is said once: three of thought, its end, three of answer.
THINKS: dict[str, Any] = {
    "logit_bias": {
        "905": 100.0,
        "282": 97.0,
        "14797": 95.0,
        "10": 100.0,
        "260": 72.0,
        "768": 66.0,
        "1517": 62.0,
    },
    "repetition_penalty": 2.0,
}


def _chat(name: str, *, is_single: bool = False, server: str = "", model: str = "", **body: Any) -> Scenario:
    defaults = {"messages": MESSAGES, "max_tokens": 8, "seed": 1, "temperature": 1.0}
    whole = {key: value for key, value in {**defaults, **body}.items() if value is not ...}
    given: dict[str, Any] = {"server": server} if server else {}
    return Scenario(f"chat_{name}", CHAT, whole, is_single=is_single, model=model or None, **given)


def _forced(text: str) -> dict[str, Any]:
    return {"structured_outputs": {"choice": [text]}, "max_tokens": 40}


ANSWERS = [
    _chat("plain"),
    _chat("end", **_forced("hi there")),
    _chat("unicode", **_forced(MOJIBAKE)),
    _chat("stop", **_forced("one two three four five"), stop=["o thr"]),
    _chat("stop_included", **_forced("one two three four"), stop=["two"], include_stop_str_in_output=True),
    _chat("stop_token", **_forced("one two three four"), stop_token_ids=[1512]),
    _chat("n3", n=3, max_tokens=6),
    _chat("n3_ends", n=3, **_forced("red")),
    _chat("logprobs", logprobs=True),
    _chat("logprobs_top", logprobs=True, top_logprobs=3, max_tokens=5),
    _chat("logprobs_null_top", logprobs=True, top_logprobs=None, max_tokens=3),
    _chat("ids", return_token_ids=True, max_tokens=4),
    _chat("usage", streamed_with={"include_usage": True}),
    _chat("usage_n3", streamed_with={"include_usage": True}, n=3, max_tokens=3),
    _chat("usage_continuous", streamed_with={"include_usage": True, "continuous_usage_stats": True}),
    _chat("interval", stream_interval=3),
    _chat("echo", messages=[USER, {"role": "assistant", "content": "Red is"}], echo=True, max_tokens=3,
          add_generation_prompt=False, continue_final_message=True),
    _chat("tool_auto", tools=TOOLS, structured_outputs={"regex": ONE_CALL}, max_tokens=90),
    _chat("tool_auto_text", tools=TOOLS),
    _chat("tool_parallel", tools=TOOLS, structured_outputs={"regex": f"{ONE_CALL}\\n{ONE_CALL}"}, max_tokens=180),
    _chat("tool_after_text", tools=TOOLS, structured_outputs={"regex": f"Well: {ONE_CALL}"}, max_tokens=100),
    _chat("tool_named", tools=TOOLS, tool_choice={"type": "function", "function": {"name": "sky"}}, max_tokens=90),
    _chat("tool_required", tools=TOOLS, tool_choice="required", max_tokens=90),
    _chat("tool_result", tools=TOOLS, messages=[USER, {"role": "assistant", "content": None, "tool_calls": [FIRST_CALL]},
          {"role": "tool", "tool_call_id": "call-1", "content": "done"}]),
    _chat("json_schema", max_tokens=40, response_format={"type": "json_schema", "json_schema": {"name": "hue", "schema": HUE}}),
    _chat("json_object", max_tokens=12, response_format={"type": "json_object"}),
    _chat("odd_contents", messages=[{"role": "user", "content": []}, {"role": "assistant", "content": [], "tool_calls": [FIRST_CALL]},
          {"role": "tool", "tool_call_id": "call-1", "content": "done"}, {"role": "assistant", "content": "x", "tool_calls": []}, USER]),
    _chat("unknown_fields", metadata={"trajectory_id": "t"}, store=False, x_vendor={"a": [1.50, None]}, max_tokens=2),
]  # fmt: skip

THOUGHTS = [
    _chat("reasoning", server=REASONING_SERVER, max_tokens=7, **THINKS),
    _chat("reasoning_only", server=REASONING_SERVER, max_tokens=5),
    _chat("reasoning_hidden", server=REASONING_SERVER, max_tokens=7, include_reasoning=False, **THINKS),
    _chat("reasoning_usage", server=REASONING_SERVER, max_tokens=7, streamed_with={"include_usage": True}, **THINKS),
]  # fmt: skip

REFUSALS = [
    _chat("refused_temperature", temperature=-1),
    _chat("refused_greedy_n2", temperature=0, n=2),
    _chat("refused_top_logprobs", top_logprobs=2),
    _chat("refused_many_logprobs", logprobs=True, top_logprobs=100),
    _chat("refused_model", model="no-such@1"),
    _chat("refused_no_messages", messages=...),
    _chat("refused_empty_messages", messages=[]),
    _chat("refused_long_prompt", messages=[{"role": "user", "content": "word " * 1100}]),
    _chat("refused_max_tokens", max_tokens=5000),
    _chat("refused_schema", response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}),
    _chat("refused_no_schema", response_format={"type": "json_schema"}),
    _chat("refused_regex", structured_outputs={"regex": "(("}),
    _chat("refused_tools", tools=[{"type": "function", "function": {}}]),
    _chat("refused_empty_tools", tools=[]),
    _chat("refused_tool_pattern", tool_choice="required", tools=[{"type": "function", "function": {"name": "a", "strict": True,
          "parameters": {"type": "object", "properties": {"x": {"type": "string", "pattern": "(("}}, "required": ["x"]}}}]),
    _chat("refused_tool_choice", tool_choice="required"),
    _chat("refused_stops", stop=["x"] * 5),
    _chat("refused_template", chat_template="{{ 1 }}"),
    _chat("refused_image", messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/x"}}]}]),
    _chat("refused_stream_options", stream_options={"include_usage": True}, is_single=True),
    Scenario("chat_refused_json", CHAT, '{"messages": [', is_single=True),
    Scenario("chat_refused_surrogate", CHAT, '{"messages":[{"role":"user","content":"\\ud83d"}],"max_tokens":1}', is_single=True),
    Scenario("chat_refused_media_type", CHAT, '{"messages": []}', headers={"Content-Type": "text/plain"}, is_single=True),
    Scenario("chat_refused_get", CHAT, method="GET", is_single=True),
]  # fmt: skip

SCENARIOS = [*ANSWERS, *THOUGHTS, *REFUSALS]
