"""What a user asked for and cannot have."""

from __future__ import annotations


class UserMistake(Exception):
    """Something asked for does not exist or does not fit. The message is for the user."""
