#!/bin/sh
# Starts vLLM on CPU. It takes one core unless told which, and the OpenMP runtime it is built for must be loaded first.
set -eu
if [ -z "${VLLM_CPU_OMP_THREADS_BIND:-}" ]; then
  VLLM_CPU_OMP_THREADS_BIND="$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
fi
export VLLM_CPU_OMP_THREADS_BIND
# Its sampler compiles a function at the first request for logprobs, which needs a C++ compiler: run it as it is.
export TORCHDYNAMO_DISABLE=1
export LD_PRELOAD=/opt/venv/lib/libiomp5.so
exec python -m vllm.entrypoints.openai.api_server "$@"
