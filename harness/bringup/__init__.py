"""The only room that writes to a cluster: leases, pools, take-down."""
