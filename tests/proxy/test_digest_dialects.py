"""Anthropic's blocks and the items of responses are found again as a chat's messages are."""

from openai.types.responses import Response

from tests.proxy.digests import MESSAGES, RESPONSES, answered, asked


def test_anthropic_blocks_are_found_again() -> None:
    body = {"system": "Be brief.", "messages": [{"role": "user", "content": "Weather?"}]}
    streamed = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "t1", "name": "weather", "input": {}, "partial_json": '{"city": "Paris"}'},
    ]
    whole = [streamed[1], {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Paris"}}]
    digest = answered(body, {"role": "assistant", "content": "…", "blocks": streamed}, MESSAGES)
    assert digest == answered(body, {"role": "assistant", "content": "…", "blocks": whole}, MESSAGES)
    cached = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "18"}]}
    following = {
        "system": cached,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
            {"role": "assistant", "content": whole},
            {"role": "user", "content": [result]},
        ],
    }
    assert asked(following, MESSAGES).continues == digest
    other = {**whole[1], "input": {"city": "Rome"}}
    following["messages"][1] = {"role": "assistant", "content": [whole[0], other]}
    assert asked(following, MESSAGES).continues != digest


def test_items_of_responses_are_found_again() -> None:
    body = {"instructions": "Be brief.", "input": "Weather?"}
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Let me see.", "annotations": [], "logprobs": []}],
    }  # fmt: skip
    call = {
        "id": "fc_1",
        "type": "function_call",
        "call_id": "c1",
        "name": "weather",
        "arguments": '{"city":"Paris"}',
    }
    thought = {"id": "rs_1", "type": "reasoning", "summary": []}
    output = [thought, message, call]
    digest = answered(body, {"role": "assistant", "content": "…", "output": output}, RESPONSES)
    known = Response.model_validate(
        {
            "id": "resp_1", "created_at": 1, "model": "m", "object": "response", "output": output,
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        }
    )  # fmt: skip
    echo = [item.model_dump() for item in known.output]
    plain = [{"role": "assistant", "content": "Let me see."}, {**call, "id": None, "status": None}]
    for said in (echo, plain):
        following = {
            "instructions": "Be brief.",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
                *said,
                {"type": "function_call_output", "call_id": "c1", "output": "18"},
            ],
        }
        assert asked(following, RESPONSES).continues == digest
