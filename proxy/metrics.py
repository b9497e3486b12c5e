"""What the proxy counts, and what it reads of training. One registry per application, so that two in one process do not share numbers."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ledger.vocabulary import ExchangeStatus
from proxy.step_metrics import StepMetrics

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter, gauge = self._counter, self._gauge
        self.calls = counter("slipstream_calls", "Calls that ended, by status.", "status")
        self.calls_by_status = {status: self.calls.labels(status) for status in ExchangeStatus}
        self.uncaptured = counter("slipstream_uncaptured", "Calls served without a record.", "reason")
        self.dropped_events = counter(
            "slipstream_stream_frames_dropped", "Upstream frames that no client can read.", "reason"
        )
        self.version_mismatches = counter(
            "slipstream_version_mismatches", "Replies that named another model."
        )
        self.external_calls = counter(
            "slipstream_external_calls", "Calls sent to an external provider.", "provider"
        )
        self.greedy = counter(
            "slipstream_greedy_calls",
            "Greedy calls whose answers could be trained, by what became of them.",
            "sampling",
        )
        self.explored, self.unexplored = (self.greedy.labels(kind) for kind in ("explored", "greedy"))
        self.upstream_retries = counter("slipstream_upstream_retries", "Calls sent once more.", "reason")
        self.accepted = counter("slipstream_accepted", "Calls that have a record in the spool.")
        self.unwritten = counter("slipstream_unwritten", "Ends that the spool could not take: interrupted.")
        self.damaged = counter("slipstream_damaged", "Damaged places found in segments of the spool.")
        self.lost = counter("slipstream_lost", "Calls of which the spool holds no whole frame.")
        self.spooled = counter("slipstream_spooled", "Finished records made durable in the spool.")
        self.committed = counter("slipstream_committed", "Records committed to Postgres.")
        self.rejected = counter("slipstream_rejected", "Records that Postgres refused, set aside as files.")
        self.adopted = counter("slipstream_adopted", "Records taken over from the spool of a dead process.")
        self.commit_failures = counter("slipstream_commit_failures", "Failed attempts to write to Postgres.")
        self.rewards = counter("slipstream_rewards", "Reward posts, by result.", "status")
        self.reward_commits = counter("slipstream_reward_commits", "Transactions of reward posts.")
        self.nudges = counter("slipstream_nudges", "Nudges of the trainer, by result.", "result")
        self.spool_waiting_bytes = gauge(
            "slipstream_spool_waiting_bytes", "Bytes of the spool that are not committed to Postgres yet."
        )
        self.spool_waiting_records = gauge(
            "slipstream_spool_waiting_records", "Finished calls that are not committed to Postgres yet."
        )
        self.spool_waiting_seconds = gauge(
            "slipstream_spool_waiting_seconds", "For how long something has waited to be committed."
        )
        self.conversations = counter(
            "slipstream_conversation_lookups", "Untagged calls with an assistant turn, by result.", "result"
        )
        self.valkey_failures = counter("slipstream_valkey_failures", "Connections to Valkey that failed.")
        self.inflight = gauge("slipstream_inflight_calls", "Calls that are running.")
        self.replicas = gauge("slipstream_replicas", "Replicas of vLLM, by state.", "state")
        self.live_version = gauge("slipstream_live_version", "The version that new calls get.", "policy")
        self.first_token = self._histogram("slipstream_first_token_seconds", "From arrival to first token.")
        self.total = self._histogram("slipstream_call_seconds", "From arrival to vLLM's last byte.")
        self.steps = StepMetrics()
        self.registry.register(self.steps)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, registry=self.registry, buckets=_SECONDS)
