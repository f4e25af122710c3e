"""Asking through reach, giving facts back."""
