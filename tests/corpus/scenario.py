"""One thing that a client may ask of vLLM, in up to four ways: streamed or not, plainly or with what capture adds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

RECORDED_MODEL = "SmolLM2-135M-Instruct"  # what the recorded server called its base model
CALL_ID = "0198c0de0000700080000000deadbeef"  # the X-Request-Id that the proxy's form sends
CHAT, COMPLETIONS, RESPONSES, MESSAGES = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
)
TOOLS_SERVER, REASONING_SERVER = "tools", "reasoning"  # the flags of each stand in record.py
LOGPROBS = "message.output_text.logprobs"

JSON = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """One request. `body` lacks its model; text is sent as it is."""

    form: str  # client, proxy
    is_streamed: bool
    method: str
    path: str
    headers: Mapping[str, str]
    body: JSON | str | None


@dataclass(frozen=True)
class Scenario:
    name: str
    path: str
    body: JSON | str | None = None
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    server: str = TOOLS_SERVER
    model: str | None = None  # another name than the server's own
    is_single: bool = False  # asked once, unstreamed, as a client

    def asked(self) -> Iterator[Asked]:
        yield self._asked("client", False, self.body, {})
        if self.is_single or not isinstance(self.body, dict):
            return
        yield self._asked("client", True, {**self.body, "stream": True}, {})
        body, headers = as_the_proxy_asks(self.path, self.body)
        yield self._asked("proxy", False, body, headers)
        yield self._asked("proxy", True, {**body, "stream": True}, headers)

    def _asked(
        self, form: str, is_streamed: bool, body: JSON | str | None, headers: Mapping[str, str]
    ) -> Asked:
        if is_streamed and isinstance(body, dict) and (options := body.pop("streamed_with", None)):
            body["stream_options"] = options
        elif isinstance(body, dict):
            body = {key: value for key, value in body.items() if key != "streamed_with"}
        return Asked(form, is_streamed, self.method, self.path, {**self.headers, **headers}, body)


def as_the_proxy_asks(path: str, body: JSON) -> tuple[JSON, dict[str, str]]:
    """The body with what capture adds, and the headers that name the call."""
    headers = {"X-Request-Id": CALL_ID}
    if path == CHAT:
        wanted = {"return_token_ids": True}
        if not body.get("logprobs") and not body.get("top_logprobs"):
            wanted |= {"logprobs": True, "top_logprobs": 0}
        return {**body, **wanted}, headers
    if path == COMPLETIONS:
        return {"logprobs": 0, **body, "return_token_ids": True}, headers
    if path == RESPONSES:
        include = list(dict.fromkeys([*body.get("include", ()), LOGPROBS]))
        named = {"request_id": f"resp_{CALL_ID}", "enable_response_messages": True, "include": include}
        return {**body, **named}, headers
    return dict(body), headers
