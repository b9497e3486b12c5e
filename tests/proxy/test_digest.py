"""A conversation is found again however its client writes it down, and only if nothing that was said differs."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage

from proxy.conversation.dialects import DIALECTS
from tests.proxy.digests import MESSAGES, RESPONSES, ROOT, answered, asked

words = st.text(min_size=1, max_size=30)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(words, values, max_size=3).map(
    lambda v: json.dumps(v, separators=(",", ":"))
) | st.sampled_from(["", "{", "not json", "[1,]"])
calls = st.lists(st.tuples(words, words, arguments), max_size=3)


def a_response(text: str | None, tools: list[tuple[str, str, str]]) -> dict[str, Any]:
    """A choice's response as the proxy records it."""
    message: dict[str, Any] = {"role": "assistant", "content": text, "reasoning": "well"}
    if tools:
        message["tool_calls"] = [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": raw}}
            for id_, name, raw in tools
        ]
    return message


def echoes(response: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The answer as clients put it into the next request."""
    shown = ChatCompletionMessage.model_construct(None, **response)
    parsed = ChatCompletionMessage.model_validate(response)
    yield shown.model_dump()
    yield parsed.model_dump(exclude_none=True)
    yield parsed.model_dump(exclude_unset=True)
    yield {**response, "refusal": None, "annotations": [], "audio": None, "function_call": None}
    yield {key: value for key, value in response.items() if key != "reasoning"}
    yield {**response, "reasoning_content": "hm", "name": "writer"}
    yield {**response, "tool_calls": response.get("tool_calls") or []}
    text = response["content"] or ""
    yield {**response, "content": f" {text.strip()}\n"}
    yield {**response, "content": [{"type": "text", "text": text}]}
    half = len(text) // 2
    yield {**response, "content": [{"type": "text", "text": t} for t in (text[:half], text[half:])]}
    yield {**response, "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]}
    if not text.strip():
        yield {**response, "content": None}
        yield {**response, "content": ""}
        yield {**response, "content": []}
    yield langchain_style(response)


def langchain_style(response: dict[str, Any]) -> dict[str, Any]:
    """Arguments were parsed, and are written anew."""
    message: dict[str, Any] = {"role": "assistant", "content": response["content"] or None}
    if tools := response.get("tool_calls"):
        message["tool_calls"] = [{**call, "function": rewritten(call["function"])} for call in tools]
    return message


def rewritten(function: dict[str, Any]) -> dict[str, Any]:
    try:
        return {**function, "arguments": json.dumps(json.loads(function["arguments"] or "{}"))}
    except ValueError:
        return function


@given(text=st.none() | st.text(), tools=calls, said=words)
def test_an_answer_is_found_however_a_client_repeats_it(
    text: str | None, tools: list[tuple[str, str, str]], said: str
) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": said}]
    response = a_response(text, tools)
    digest = answered({"messages": messages}, response)
    for echo in echoes(response):
        following = {"messages": [*messages, echo, {"role": "user", "content": "And then?"}]}
        assert asked(following).continues == digest, echo


@given(text=words, other=words, said=words)
def test_another_word_is_another_conversation(text: str, other: str, said: str) -> None:
    messages = [{"role": "user", "content": said}]
    digest = answered({"messages": messages}, a_response(text, []))
    is_same = text.strip() == other.strip()
    assert (asked({"messages": [*messages, a_response(other, [])]}).continues == digest) is is_same
    changed = [{"role": "user", "content": other}, a_response(text, [])]
    assert (asked({"messages": changed}).continues == digest) is (said.strip() == other.strip())


TOOLS = [("call_1", "weather", '{"city":"Paris","days":2}')]


@pytest.mark.parametrize(
    "changed",
    [
        a_response("Let me see.", [("call_2", "weather", '{"city":"Paris","days":2}')]),
        a_response("Let me see.", [("call_1", "forecast", '{"city":"Paris","days":2}')]),
        a_response("Let me see.", [("call_1", "weather", '{"city":"Paris","days":3}')]),
        a_response("Let me see.", [("call_1", "weather", '{"city":"Paris","days":2.5}')]),
        a_response("Let me see.", [*TOOLS, *TOOLS]),
        a_response("Let me see.", []),
        {**a_response("Let me see.", TOOLS), "role": "user"},
    ],
)
def test_another_tool_call_is_another_conversation(changed: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": "Weather?"}]
    digest = answered({"messages": messages}, a_response("Let me see.", TOOLS))
    assert asked({"messages": [*messages, a_response("Let me see.", TOOLS)]}).continues == digest
    assert asked({"messages": [*messages, changed]}).continues != digest


@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(max_size=3)), max_size=5), st.data()
)
def test_messages_cannot_be_cut_in_another_way(turns: list[tuple[str, str]], data: st.DataObject) -> None:
    others = data.draw(
        st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(max_size=3)), max_size=5)
    )
    digests = [
        answered({"messages": [{"role": r, "content": t} for r, t in said]}, a_response("Yes", []))
        for said in (turns, others)
    ]
    same = [(r, t.strip()) for r, t in turns] == [(r, t.strip()) for r, t in others]
    assert (digests[0] == digests[1]) is same


@pytest.mark.parametrize("place", range(4))
def test_other_projects_keys_policies_and_users_talk_apart(place: int) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
    other = tuple("other" if k == place else part for k, part in enumerate(ROOT))
    assert asked(body).continues != asked(body, root=other).continues


def test_tool_results_and_names_count() -> None:
    def continued(**changed: Any) -> bytes | None:
        result = {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees", **changed}
        last = {"role": "assistant", "content": "18"}
        return asked({"messages": [a_response(None, TOOLS), result, last]}).continues

    assert continued() == continued(content=[{"type": "text", "text": "18 degrees"}], name=None)
    assert len({continued(), continued(content="19"), continued(tool_call_id="2"), continued(name="w")}) == 4


def test_a_picture_counts() -> None:
    def continued(url: str) -> bytes | None:
        parts = [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": url}}]
        return asked(
            {"messages": [{"role": "user", "content": parts}, {"role": "assistant", "content": "A cat."}]}
        ).continues

    assert continued("data:1") == continued("data:1") != continued("data:2")


def test_nothing_is_continued_without_an_assistant_turn() -> None:
    assert asked({"messages": [{"role": "user", "content": "Hi"}]}).continues is None
    assert asked({"input": "Hi"}, RESPONSES).continues is None
    assert asked({"system": "Be brief.", "messages": []}, MESSAGES).continues is None


@given(values)
def test_whatever_stands_in_a_request_nothing_raises(value: Any) -> None:
    message = dict.fromkeys(("role", "content", "tool_calls", "function_call", "tool_call_id", "name"), value)
    block = {"type": "tool_result", "tool_use_id": value, "content": value}
    item = {"type": "function_call", "call_id": value, "name": value, "arguments": value}
    for path in DIALECTS:
        for given_messages in (value, [value], [message], [{"role": "assistant", "content": [block]}]):
            asked({"messages": given_messages, "system": value}, path)
        for items in (
            value,
            [value],
            [message],
            [item],
            [{**item, "type": "function_call_output", "output": value}],
        ):
            asked({"input": items, "instructions": value}, path)
        for response in (
            message,
            {"blocks": value},
            {"blocks": [block]},
            {"output": [item]},
            {"output": value},
        ):
            answered({}, response, path)
