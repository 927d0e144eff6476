"""Authentication: from a request's credentials to a principal and its rights.

    headers ──Given──▶ Identity ──▶ first Authenticator that knows them ──Known──▶ gate ──▶ Who

An authenticator is anything with the shape of `Authenticator`: people in a file, tokens in a file,
nobody at all on loopback, later Keystone.
"""

from yaffle.api.auth.factory import Identity, read_identity
from yaffle.api.auth.port import Authenticator, Given, Known

__all__ = ["Authenticator", "Given", "Identity", "Known", "read_identity"]
