"""How busy a vLLM is, by its own /metrics. Pure."""

from dataclasses import dataclass

_RUNNING, _WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"


@dataclass(frozen=True, slots=True)
class Load:
    """Example: two engines with 1 and 2 running, nothing waiting -> Load(3, 0)."""

    num_running: float
    num_waiting: float

    def is_idle(self, max_running: int) -> bool:
        """NaN is not."""
        return self.num_waiting == 0 and self.num_running <= max_running


def load_of(metrics: str) -> Load | None:
    """The sum over a server's engines; None if it does not say."""
    running, waiting = _values(metrics, _RUNNING), _values(metrics, _WAITING)
    return Load(sum(running), sum(waiting)) if running and waiting else None


def _values(metrics: str, name: str) -> list[float]:
    found = []
    for line in metrics.splitlines():
        if line.startswith((f"{name} ", f"{name}{{")):
            try:
                found.append(float(line.rpartition("}")[2].removeprefix(name).split()[0]))
            except (ValueError, IndexError):
                found.append(float("nan"))
    return found
