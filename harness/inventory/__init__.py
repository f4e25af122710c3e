"""What a lab is: its clusters, hosts, cards, images, pools and lanes, read from one YAML file.

``load`` gives a frozen ``Lab`` or raises ``InventoryError`` with everything that is wrong;
``check`` gives the same problems as a list.
"""

from __future__ import annotations

from harness.inventory.capability import Capabilities, Missing, NeedError, match, parse_needs
from harness.inventory.loading import check, load
from harness.inventory.manifest import kubernetes_nodes
from harness.inventory.models import Lab, Pool
from harness.inventory.problems import InventoryError, Problem
from harness.inventory.secrets import SecretRef, SecretUnavailableError

__all__ = [
    "Capabilities",
    "InventoryError",
    "Lab",
    "Missing",
    "NeedError",
    "Pool",
    "Problem",
    "SecretRef",
    "SecretUnavailableError",
    "check",
    "kubernetes_nodes",
    "load",
    "match",
    "parse_needs",
]
