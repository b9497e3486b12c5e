"""Digests of what was asked and answered, as the proxy makes them."""

from typing import Any

from proxy.conversation.dialects import DIALECTS
from proxy.conversation.digest import Conversation

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
ROOT = ("default", "None", "default", "")


def asked(body: dict[str, Any], path: str = CHAT, root: tuple[str, ...] = ROOT) -> Conversation:
    return Conversation(root, DIALECTS[path].asked(body))


def answered(body: dict[str, Any], response: dict[str, Any], path: str = CHAT) -> bytes:
    return asked(body, path).answered(DIALECTS[path].answered(response))
