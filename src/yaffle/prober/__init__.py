"""The URL prober: a process of its own, so that no load of the engine can look like an unhealthy node.

`client.ProberClient` is the engine's side; `python -m yaffle.prober FD` is the child. Inside the
child one thread turns `loop.Loop`: epoll, a timer wheel, and nothing that blocks.

    client ──wire──▶ service ──▶ watches ──▶ check (attempts) ──▶ attempt (one connection) ──▶ verdict
"""
