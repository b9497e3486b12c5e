"""nginx as the floor: what relaying costs if nothing is read, in C. One worker, no buffering, no log."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.gateway.children import ChildFailedError, started
from bench.gateway.contender import Contender
from slipstream.http import ask_http
from slipstream.local.child import ChildSpec
from slipstream.local.ports import free_ports

REMEDY = "Install it (`apt-get install nginx-light`), or leave it out: --contenders direct,slipstream"
_CONFIG = """
daemon off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid {directory}/nginx.pid;
error_log {directory}/nginx-error.log warn;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  client_max_body_size 64m;
  client_body_buffer_size 1m;
  keepalive_timeout 75s;
  keepalive_requests 10000000;
  upstream vllm {{ server 127.0.0.1:{upstream}; keepalive 4096; keepalive_requests 10000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://vllm;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 660s;
    }}
  }}
}}
"""


def config(directory: Path, port: int, upstream: int) -> str:
    return _CONFIG.format(directory=directory, port=port, upstream=upstream)


@contextmanager
def running_nginx(directory: Path, upstream: int) -> Iterator[Contender]:
    program = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/bin")
    if program is None:
        raise ChildFailedError(f"nginx is not on this machine. {REMEDY}")
    (port,) = free_ports(1)
    file = directory / "nginx.conf"
    file.write_text(config(directory, port, upstream))
    spec = ChildSpec(
        "nginx",
        REMEDY,
        lambda: ask_http(f"http://127.0.0.1:{port}/health"),
        (program, "-c", str(file), "-e", str(directory / "nginx-error.log")),
        start_seconds=20,
    )
    with started(spec, directory) as tree:
        yield Contender("nginx", port, tree)
