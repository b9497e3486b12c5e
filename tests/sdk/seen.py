"""What the SDKs' workers saw, and what the ledger holds of it."""

from typing import Any

from tests.proxy.running import RunningProxy, eventually

MESSAGES = [{"role": "user", "content": "Hi"}]
HIDDEN = {"token_ids", "prompt_token_ids", "prompt_text"}  # what only the proxy asked for


def base(proxy: RunningProxy) -> str:
    return f"{proxy.url}/v1"


def row_of(proxy: RunningProxy, request_id: str) -> Any:
    """The one row of the call that was named so."""
    found = eventually(
        lambda: proxy.rows("SELECT * FROM exchanges WHERE request_id = :name", name=request_id)
    )
    [row] = found
    return row


def joined(chunks: list[Any], index: int = 0) -> str:
    choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def keys_in(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(keys_in, value)) if value else set()
    if isinstance(value, dict):
        return set(value).union(*map(keys_in, value.values()))
    return set()


def called(chunks: list[Any]) -> dict[int, list[str]]:
    """Name, arguments and id of each call of tools, put together by index as programs do it."""
    calls: dict[int, list[str]] = {}
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        for part in choice["delta"].get("tool_calls") or ():
            call = calls.setdefault(part["index"], ["", "", ""])
            function = part.get("function") or {}
            call[0] += function.get("name") or ""
            call[1] += function.get("arguments") or ""
            call[2] = call[2] or part.get("id") or ""
    return calls
