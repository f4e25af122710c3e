"""`hil console`: a machine's serial console, for a person or for a script."""
