"""What this machine can do, and what to install where it cannot."""
