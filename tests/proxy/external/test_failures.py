"""What goes wrong with other providers, as the client reads it: OpenAI's shape, the provider's status, no key anywhere."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from proxy.external.child.failures import redacted
from proxy.external.environment import child_environment
from tests.fakes.providers import FakeProvider
from tests.proxy.conftest import StartProxy
from tests.proxy.external.conftest import ANTHROPIC_KEY, OPENAI_KEY, events_of, external_settings
from tests.proxy.running import RunningProxy, eventually

PROVIDERS_WORDS = {"message": "slow down", "type": "requests", "param": None, "code": "rate_limit_exceeded"}


@pytest.mark.parametrize("model", ["openai/gpt-4o", "anthropic/claude-sonnet-4"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_providers_refusal_keeps_its_status_and_its_retry_after(
    external_proxy: RunningProxy,
    provider: FakeProvider,
    model: str,
    *,
    is_streamed: bool,
) -> None:
    provider.error = (429, {"retry-after": "7"}, {"error": PROVIDERS_WORDS})
    reply = external_proxy.chat(model=model, stream=is_streamed)
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "7")
    assert reply.json()["error"] == PROVIDERS_WORDS
    assert len(provider.seen) == 1  # nothing is repeated behind the client's back
    (row,) = external_proxy.exchanges()
    assert (row.status, row.http_status, row.untrainable_reason) == ("failed", 429, "external_model")


def test_a_wrong_field_is_named_as_the_provider_named_it(
    external_proxy: RunningProxy,
    provider: FakeProvider,
) -> None:
    told = {"message": "too hot", "type": "invalid_request_error", "param": "temperature", "code": None}
    provider.error = (400, {}, {"error": told})
    reply = external_proxy.chat(model="openai/gpt-4o", temperature=5)
    assert (reply.status_code, reply.json()["error"]) == (400, told)


def test_what_a_provider_cannot_do_is_refused_and_not_left_out(
    external_proxy: RunningProxy,
    provider: FakeProvider,
) -> None:
    reply = external_proxy.chat(model="anthropic/claude-sonnet-4", n=2)
    assert reply.status_code == 400
    assert "'n'" in reply.json()["error"]["message"]
    assert "litellm" not in reply.text.lower()
    assert provider.seen == []


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_the_operators_matter_and_is_told_nowhere(
    external_proxy: RunningProxy,
    provider: FakeProvider,
    status: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """B125, B126: the provider's answer repeats the whole key."""
    provider.error = (status, {}, {"error": {"message": f"Incorrect API key provided: {OPENAI_KEY}."}})
    for model in ("openai/gpt-4o", "anthropic/claude-sonnet-4"):
        reply = external_proxy.chat({"authorization": "Bearer sk-the-clients-own-key"}, model=model)
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "external_refused")
        assert reply.headers["x-should-retry"] == "false"
    external_proxy.exchanges(2)
    tables = [row[0] for row in external_proxy.rows("SELECT exchanges::text FROM exchanges")]
    told = " ".join([*tables, *capfd.readouterr(), reply.text, str(reply.headers)])
    for key in (OPENAI_KEY, ANTHROPIC_KEY, "canary", "clients-own-key"):
        assert key not in told


def test_a_key_that_the_operator_did_not_give_is_said_without_a_call(
    start_proxy: StartProxy, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    proxy = start_proxy(**external_settings(provider))
    reply = proxy.chat(model="openai/gpt-4o")
    assert (reply.status_code, provider.seen) == (502, [])
    assert reply.json()["error"]["code"] == "external_refused"


@pytest.mark.parametrize("model", ["openai/gpt-4o", "anthropic/claude-sonnet-4"])
@pytest.mark.parametrize("is_told", [False, True])
def test_a_stream_that_breaks_ends_with_an_error_and_without_done(
    external_proxy: RunningProxy,
    provider: FakeProvider,
    model: str,
    *,
    is_told: bool,
) -> None:
    provider.break_after = 4
    error = {"type": "overloaded_error", "message": f"Overloaded {OPENAI_KEY}"}
    provider.error_event = {"type": "error", "error": error} if is_told else None
    reply = external_proxy.chat(model=model, stream=True)
    events = events_of(reply.text)
    assert "[DONE]" not in events
    assert events[-1]["error"]["code"] == "external_broken"
    assert OPENAI_KEY not in reply.text
    (row,) = external_proxy.exchanges()
    assert (row.status, row.finish_reason) == ("failed", None)
    assert row.completion_text.startswith("Fo")


def test_a_stream_that_ends_without_a_finish_reason_gets_none(
    external_proxy: RunningProxy,
    provider: FakeProvider,
) -> None:
    """B030: no finish reason is invented."""
    provider.break_after, provider.breaks_cleanly = 3, True
    events = events_of(external_proxy.chat(model="openai/gpt-4o", stream=True).text)
    assert "error" in events[-1]
    assert all(e["choices"][0]["finish_reason"] is None for e in events[:-1])


def test_a_provider_that_is_away_or_silent_is_told_as_that(
    start_proxy: StartProxy, provider: FakeProvider
) -> None:
    proxy = start_proxy(**external_settings(provider), upstream_idle_seconds=2)
    provider.hangs = True
    for model in ("openai/gpt-4o", "anthropic/claude-sonnet-4"):
        reply = proxy.chat(model=model)
        assert (reply.status_code, reply.json()["error"]["code"]) == (504, "upstream_timeout")
    provider.hangs = False
    provider.stop()
    eventually(
        lambda: proxy.chat(model="openai/gpt-4o").status_code in {500, 502}
    )  # a busy machine says 504 first
    provider.start()
    eventually(lambda: proxy.chat(model="openai/gpt-4o").status_code == 200)


@pytest.mark.parametrize("said", ["error", "", "end_turn", "eos"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_finish_reason_is_one_that_clients_know(
    external_proxy: RunningProxy, provider: FakeProvider, said: str, *, is_streamed: bool
) -> None:
    """B030, B031: whatever the provider says."""
    provider.finish_reason = said
    reply = external_proxy.chat(model="openai/gpt-4o", stream=is_streamed)
    bodies = events_of(reply.text) if is_streamed else [reply.json()]
    choices = [choice for body in bodies if isinstance(body, dict) for choice in body.get("choices", ())]
    told = {choice["finish_reason"] for choice in choices}
    assert told <= {None, "stop", "length", "tool_calls", "content_filter", "function_call"}


@pytest.mark.parametrize(
    "field",
    ["api_base", "base_url", "api_key", "extra_headers", "fallbacks", "mock_response", "custom_llm_provider",
     "model_list", "allowed_openai_params", "return_token_ids", "litellm_metadata", "aws_secret_access_key"],
)  # fmt: skip
def test_litellms_own_steering_is_refused_from_clients(
    external_proxy: RunningProxy,
    provider: FakeProvider,
    field: str,
) -> None:
    reply = external_proxy.chat(model="openai/gpt-4o", **{field: "http://127.0.0.1:1"})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, field)
    assert provider.seen == []


@pytest.mark.parametrize(
    "name", ["", "https://attacker.example/x", "../x", "a//b", "a?b", "a b", "-a", "a#b", "x" * 300]
)
def test_a_name_that_is_no_models_is_a_404(external_proxy: RunningProxy, name: str) -> None:
    reply = external_proxy.chat(model=f"openai/{name}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "{}/secret.png"}},
        {"type": "file", "file": {"file_id": "{}/secret.pdf"}},
        {"type": "file", "file": {"file_data": " HTTP:{}"}},
        {"type": "input_audio", "input_audio": {"data": "{}/secret.wav", "format": "wav"}},
    ],
)
def test_addresses_are_not_fetched_for_strangers(
    external_proxy: RunningProxy, provider: FakeProvider, part: dict[str, Any]
) -> None:
    """B141: wherever LiteLLM looks for one."""
    address = provider.url if "HTTP:" not in json.dumps(part) else provider.url.removeprefix("http:")
    part = json.loads(json.dumps(part).replace("{}", address))
    reply = external_proxy.chat(
        model="anthropic/claude-sonnet-4", messages=[{"role": "user", "content": [part]}]
    )
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "messages")
    assert provider.seen == []


def test_files_inline_and_ids_of_a_provider_pass(
    external_proxy: RunningProxy, provider: FakeProvider
) -> None:
    file = {"type": "file", "file": {"file_id": "file-6F2ksmvXxt4VdoqmHRw6kL"}}
    inline = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    messages = [{"role": "user", "content": [inline, file, {"type": "text", "text": "What is http://x?"}]}]
    assert external_proxy.chat(model="openai/gpt-4o", messages=messages).status_code == 200
    assert len(provider.seen) == 1


@pytest.mark.parametrize("content", [rb'"\ud83d"', b'"\xff"', b"NaN", b"1e999"])
def test_what_no_provider_can_be_sent_is_a_400(external_proxy: RunningProxy, content: bytes) -> None:
    """B084: never a 500."""
    body = b'{"model": "openai/gpt-4o", "messages": [{"role": "user", "content": %b}]}' % content
    reply = external_proxy.client.post("/v1/chat/completions", content=body)
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")


def test_a_route_that_no_provider_answers_is_a_404_that_says_so(external_proxy: RunningProxy) -> None:
    body = {"model": "anthropic/claude-sonnet-4", "messages": []}
    reply = external_proxy.client.post("/v1/messages/count_tokens", json=body)
    assert reply.status_code == 404
    assert "external" in reply.json()["error"]["message"]


def test_secrets_are_found_by_value_and_by_their_look() -> None:
    environment = {"X_API_KEY": "hunter2-hunter2", "HOME": "/home/hunter"}
    text = redacted("hunter2-hunter2 at /home/hunter with Bearer abcdefghijklmnop", environment)
    assert text == "*** at /home/hunter with ***"


def test_the_child_gets_provider_keys_also_from_files_and_nothing_of_ours(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-from-a-file\n")
    ours = {
        "OPENAI_API_KEY_FILE": str(tmp_path / "key"),
        "DATABASE_URL": "postgresql://secret",
        "DATABASE_URL_FILE": "/run/secrets/database",
        "REDIS_URL": "redis://secret",
        "SLIPSTREAM_PORT": "4000",
        "OPENAI_BASE_URL": "http://127.0.0.1:4000/v1",  # ourselves: a call would go round for ever
        "LITELLM_LOG": "DEBUG",
        "AWS_REGION": "eu-west-1",
    }
    child = child_environment(ours, Path("/package"))
    assert child["OPENAI_API_KEY"] == "sk-from-a-file"
    assert child["AWS_REGION"] == "eu-west-1"
    assert child["LITELLM_LOG"] == "CRITICAL"
    assert child.keys().isdisjoint(ours.keys() - {"AWS_REGION", "LITELLM_LOG"})
    assert child["PYTHONPATH"].split(os.pathsep)[0] == "/package"
