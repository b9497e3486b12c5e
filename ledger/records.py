"""What the proxy hands to the ledger: one frozen record per call, complete enough to be replayed after a crash.

A record names everything that its rows need, ids included, so writing it twice gives the same rows.
"""

from collections.abc import Sequence
from dataclasses import field
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.frozen import dataclass
from ledger.vocabulary import ExchangeStatus, IdentifiedBy, Reason


@dataclass(frozen=True, slots=True)
class Attribution:
    """Which trajectory and group a call belongs to, decided at its arrival without a database.

    `trajectory_id` is the id to use if the caller's own `external_id` is new; otherwise the ledger's wins.
    With n > 1 choices, choice k begins trajectory `choice_id(trajectory_id, k)`; its external id is
    `external_id` for k = 0 and `external_id#k` for the others. A call that goes on with a conversation is its next
    turn by choice 0; its choices k > 0 begin trajectories whose ids are their exchanges', `choice_id(call_id, k)`.
    """

    trajectory_id: UUID
    identified_by: IdentifiedBy
    external_id: str | None = None
    group_key: str | None = None  # X-Group-Id / metadata.group_id
    group_size: int | None = None
    route: str | None = None  # X-Route / metadata.route: the caller's name for what calls of this kind share
    turn_type: str = "main"
    is_opted_out: bool = False  # store: false -> served and stored, not trained
    metadata: dict[str, Any] | None = None
    end_user: str | None = None
    continues_sha256: str | None = (
        None  # the conversation it goes on with, where the proxy could not place it
    )


@dataclass(frozen=True, slots=True)
class ChoiceRecord:
    """One choice of the reply. Lists are per token, as vLLM returned them; None = vLLM did not return it."""

    index: int
    response: dict[str, Any] | None = None
    text: str | None = None
    completion_ids: list[int] | None = None
    sampling_logprobs: list[float] | None = None
    finish_reason: str | None = None
    stop_reason: str | None = None
    prompt_ids: Sequence[int] | None = None  # where the prompts of one call differ; else the call's
    conversation_sha256: str | None = None  # all messages and this answer, as a next turn would repeat them
    num_completion_tokens: int | None = None  # where the ids are gone; else their number


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One finished (or broken-off) call: becomes one exchange per choice.

    Example: n = 2, streamed, version 3: `call_id` X, choices 0 and 1 -> exchanges X and X + 1, both version 3,
    in two trajectories of one `choices` group whose key is X and whose size is 2. A legacy completion of 3 prompts with
    n = 2 has num_choices = 6 and num_prompts = 3; choices 2 and 3 answer prompt 1.
    """

    call_id: UUID
    project: str
    policy: str  # that answered, or whose teacher data it is
    version: int | None  # None: another provider answered
    attribution: Attribution
    request_id: str
    endpoint: str
    is_streamed: bool
    requested_model: str
    messages: list[Any] | None
    request: dict[str, Any]  # the body without messages
    started_at: datetime
    status: ExchangeStatus
    num_choices: int = 1  # as requested, over all prompts
    num_prompts: int = 1
    answered_model: str | None = None
    expected_model: str | None = None  # the name dispatched; differs from answered_model -> version_mismatch
    client_name: str | None = None
    http_status: int | None = None
    error: dict[str, Any] | None = None
    is_delivered: bool = False
    key_id: UUID | None = None  # the API key that asked; None = none was needed
    request_sha256: str | None = None  # hex, of the body as it arrived
    num_retries: int = (
        0  # x-stainless-retry-count: above 0, this repeats an earlier call of the same body and key
    )
    retry_of: UUID | None = None
    prompt_ids: Sequence[int] | None = None  # a list, or TokenIds: the text of one
    num_prompt_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    seed: int | None = None
    first_token_seconds: float | None = None
    total_seconds: float | None = None
    choices: list[ChoiceRecord] = field(default_factory=list)
    untrainable_reason: Reason | None = None  # what the proxy already knows, such as external_model
    raw_request: bytes | None = (
        None  # the body as it came, from which `messages` and `request` are made when read
    )
    prompt_key: str | None = None  # the member of the body that `messages` are, such as "messages" or "input"
    is_erased: bool = False  # a skeleton (ledger.erasure), or the answer to a request that is one
    is_shadow: bool = False  # the worker sampled it
    group_id: UUID | None = None  # the one to join, if it is open: a shadow sibling's
    is_explored: bool = False  # greedy was asked for; `temperature` and what stands beside it are as sampled


def prompt_of(call: CallRecord, choice: ChoiceRecord) -> Sequence[int] | None:
    """The prompt that a choice answers: its own where the call had several."""
    return call.prompt_ids if choice.prompt_ids is None else choice.prompt_ids
