"""Keystone as one more way to say who one is; nothing of OpenStack is imported where it is not set."""

from yaffle.api.auth.keystone.authenticator import KeystoneTokens

__all__ = ["KeystoneTokens"]
