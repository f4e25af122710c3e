"""The causes, in families; each is declared with its signs, and none knows another's."""
