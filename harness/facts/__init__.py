"""What was seen: frozen facts and the pure parsers that read them from raw text."""
