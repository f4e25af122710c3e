"""What a failing scenario leaves: taken at the failing line, before anything is taken down."""
