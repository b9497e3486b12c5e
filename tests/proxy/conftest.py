"""A proxy on a real loopback port, a fake vLLM behind it, a real Postgres behind both."""

from hypothesis import HealthCheck, settings

settings.register_profile("shared cores", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared cores")
