"""Serves one WSGI application on a loopback port: `serve.py MODULE PORT THREADS [ARGUMENT…]`."""

from __future__ import annotations

import importlib
import sys

import waitress  # type: ignore[import-untyped,import-not-found,unused-ignore]

CONNECTIONS = 900
"""Heat keeps one of its own to Nova, Glance and Keystone for each request that it serves, idle for as
long as we let it. At waitress's hundred a service takes no newcomer, and all who ask it hang."""


def main() -> None:
    """Serve for ever. Several OpenStack modules read the command line while they are imported."""
    module, port, threads, *rest = sys.argv[1:]
    sys.argv = [module, *rest]
    waitress.serve(
        importlib.import_module(module).application,
        host="127.0.0.1",
        port=int(port),
        threads=int(threads),
        ident=None,
        channel_timeout=600,
        connection_limit=CONNECTIONS,
        asyncore_use_poll=True,
    )


if __name__ == "__main__":
    main()
