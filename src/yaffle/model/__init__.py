"""The words that every part of Yaffle shares: frozen values, closed enums, typed ids. No behaviour."""
