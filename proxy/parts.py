"""The parts of one running proxy, built once by app.py and handed to each call."""

from dataclasses import dataclass

from proxy.access.concurrency import Concurrency
from proxy.access.keys import Keys
from proxy.conversation.conversations import Conversations
from proxy.external.dispatch import External
from proxy.live import LivePolicies
from proxy.metrics import Metrics
from proxy.open_bodies import OpenBodies
from proxy.recorder import Recorder
from proxy.settings import ProxySettings
from proxy.upstream.replicas import Replicas
from proxy.upstream.vllm import VllmClient


@dataclass(frozen=True, slots=True)
class Parts:
    settings: ProxySettings
    keys: Keys
    concurrency: Concurrency
    live: LivePolicies
    replicas: Replicas
    external: External
    vllm: VllmClient
    recorder: Recorder
    conversations: Conversations
    metrics: Metrics
    open_bodies: OpenBodies
