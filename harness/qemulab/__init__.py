"""The mini-lab: real guests under QEMU, with DRBD, serial consoles and SSH."""
