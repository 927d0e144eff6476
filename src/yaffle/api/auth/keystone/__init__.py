"""Authentication by Keystone; nothing of OpenStack is imported where it is not set."""

from yaffle.api.auth.keystone.authenticator import KeystoneTokens

__all__ = ["KeystoneTokens"]
