"""What a single setting of the trainer may be, and what is said where it is something else."""

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

from trainer.grpo.loss_settings import LossKind

VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)


def known_rank(rank: int) -> int:
    if rank not in VLLM_RANKS:
        raise ValueError(f"vLLM serves only the ranks {', '.join(map(str, VLLM_RANKS))}")
    return rank


def of_rewards(loss: LossKind) -> LossKind:
    if loss is LossKind.NLL:
        raise ValueError(
            "rewards are learned from with `cispo` or `ppo`; demonstrations with `slipstream sft`"
        )
    return loss


def _names(value: object) -> object:
    return (
        tuple(name.strip() for name in value.split(",") if name.strip()) if isinstance(value, str) else value
    )


def _urls(value: object) -> object:
    if isinstance(value, str):
        return tuple(url.strip().rstrip("/").removesuffix("/v1") for url in value.split(",") if url.strip())
    return value


def _some_urls(urls: tuple[str, ...]) -> tuple[str, ...]:
    if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
        raise ValueError("name at least one vLLM, each as http://host:port, separated by commas")
    return urls


Urls = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_urls), AfterValidator(_some_urls)]
Names = Annotated[tuple[str, ...] | None, NoDecode, BeforeValidator(_names)]
Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(ge=0, lt=1)]


class Checkpointing(StrEnum):
    """Whether layers are computed again in the backward pass instead of kept."""

    AUTO = "auto"  # where the step does not fit into memory otherwise
    ON = "on"
    OFF = "off"
