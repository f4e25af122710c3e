"""What earlier runs left on this machine and on a cluster: found, shown, removed when told."""
