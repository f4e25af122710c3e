"""What nvidia-smi prints: the list, the table, the long form, queries, and its failures.

Exit statuses are nvidia-smi's own: 9 without a loaded driver, 6 without a device, 2 for arguments
it does not take. Its complaints go to standard output, as the program's do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.twin.apiserver.execresult import ExecResult
from harness.twin.world.images import DRIVER_VERSION
from harness.twin.world.nvidia import Card, waits_for_fabric

CUDA_VERSION = "13.2"
_NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n\n"
)
_NO_DEVICES = "No devices found\n"
_BAD_ARGUMENTS = "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n"


@dataclass(frozen=True, slots=True)
class Driver:
    """What the program finds: whether the driver is loaded, the cards it drives, persistence.

    ``parameters`` are the module's; ``minors`` the cards' minor numbers, from 0 up if not given.
    """

    loaded: bool
    cards: tuple[Card, ...]
    persistence: bool
    when: str  # "Mon Jan  5 12:00:00 2026"
    parameters: Mapping[str, str] = field(default_factory=dict)
    minors: tuple[int, ...] = ()


def run(arguments: Sequence[str], driver: Driver) -> ExecResult:
    """Run ``nvidia-smi`` with its arguments (without its name)."""
    form = _form(arguments)
    if form is None:
        return _said(_BAD_ARGUMENTS, 2)
    if not driver.loaded:
        return _said(_NO_DRIVER, 9)
    if not driver.cards:
        return _said(_NO_DEVICES, 6)
    return _said(form(driver), 0)


def _said(text: str, exit_code: int) -> ExecResult:
    return ExecResult(text.encode(), b"", exit_code)


def _form(arguments: Sequence[str]) -> Callable[[Driver], str] | None:
    match list(arguments):
        case []:
            return _table
        case ["-L"] | ["--list-gpus"]:
            return _list
        case ["-q"] | ["--query"]:
            return _long
    return _query(arguments)


def _list(driver: Driver) -> str:
    return "".join(f"GPU {i}: {c.model} (UUID: {c.uuid})\n" for i, c in enumerate(driver.cards))


def _bus(card: Card) -> str:
    return f"0000{card.bdf}".upper()


# -- the table ---------------------------------------------------------------------------------

_RULE = "+" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+\n"
_WIDE = "+" + "-" * 89 + "+\n"


def _table(driver: Driver) -> str:
    title = (
        f"NVIDIA-SMI {DRIVER_VERSION:<22} Driver Version: {DRIVER_VERSION:<14} "
        f"CUDA Version: {CUDA_VERSION}"
    )
    rows = "".join(_row(index, card, driver) + _RULE for index, card in enumerate(driver.cards))
    return (
        f"{driver.when}\n{_WIDE}| {title:<87} |\n{_RULE.replace('+', '|', 1)}"
        f"| GPU  Name {'Persistence-M':>29} | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage |"
        " GPU-Util  Compute M. |\n"
        f"|{'':41}|{'':24}|{'MIG M. ':>22}|\n"
        f"|{'=' * 41}+{'=' * 24}+{'=' * 22}|\n{rows}\n{_WIDE}"
        f"| {'Processes:':<87} |\n"
        f"|  GPU   GI   CI {'PID   Type   Process name':>39} {'GPU Memory':>32} |\n"
        f"|{'ID   ID':>15}{'Usage':>68}{'':6}|\n|{'=' * 89}|\n"
        f"|  {'No running processes found':<87}|\n{_WIDE}"
    )


def _row(index: int, card: Card, driver: Driver) -> str:
    persistence = "On" if driver.persistence else "Off"
    power = f"{35:>4}W / {card.board.power:>4}W"
    memory = f"{1:>7}MiB / {card.board.memory:>6}MiB"
    return (
        f"| {index:>3}  {card.model[:24]:<24} {persistence:>9} |   {_bus(card)} Off |"
        f" {'0':>20} |\n"
        f"| N/A   31C    P8 {power:>23} | {memory:>22} |{'0%':>9} {'Default':>11} |\n"
        f"|{'':41}|{'':24}|{'N/A ':>22}|\n"
    )


# -- the long form -----------------------------------------------------------------------------


def _long(driver: Driver) -> str:
    head = (
        "\n==============NVSMI LOG==============\n\n"
        f"{_item('Timestamp', driver.when)}{_item('Driver Version', DRIVER_VERSION)}"
        f"{_item('CUDA Version', CUDA_VERSION)}\n{_item('Attached GPUs', str(len(driver.cards)))}"
    )
    blocks = (_gpu(index, card, driver) for index, card in enumerate(driver.cards))
    return head + "".join(blocks)


def _item(name: str, value: str, depth: int = 0) -> str:
    return f"{'    ' * depth + name:<50}: {value}\n"


def _gpu(index: int, card: Card, driver: Driver) -> str:
    board = card.board
    rows: tuple[tuple[str, str, int], ...] = (
        ("Product Name", card.model, 1),
        ("Product Architecture", board.architecture, 1),
        ("Persistence Mode", "Enabled" if driver.persistence else "Disabled", 1),
        ("GPU UUID", card.uuid, 1),
        ("Minor Number", str(driver.minors[index] if driver.minors else index), 1),
        ("VBIOS Version", board.vbios, 1),
        ("PCI", "", 1),
        ("Device Id", f"0x{card.device.upper()}10DE", 2),
        ("Bus Id", _bus(card), 2),
        # no NVLink and no fabric on a PCIe board, whatever NvLinkDisable says (gpu_path.md 4)
        ("Fabric", "", 1),
        ("State", "In Progress" if waits_for_fabric(card, driver.parameters) else "N/A", 2),
        ("Status", "N/A", 2),
        ("FB Memory Usage", "", 1),
        ("Total", f"{board.memory} MiB", 2),
        ("Used", "1 MiB", 2),
        ("Compute Mode", "Default", 1),
    )
    body = "".join(
        _item(name, value, depth) if value else f"{'    ' * depth}{name}\n"
        for name, value, depth in rows
    )
    return f"\nGPU {_bus(card)}\n{body}"


# -- queries -----------------------------------------------------------------------------------

_FIELDS: Mapping[str, Callable[[int, Card], str]] = {
    "index": lambda index, _: str(index),
    "name": lambda _, card: card.model,
    "gpu_name": lambda _, card: card.model,
    "uuid": lambda _, card: card.uuid,
    "gpu_uuid": lambda _, card: card.uuid,
    "pci.bus_id": lambda _, card: _bus(card),
    "driver_version": lambda _, __: DRIVER_VERSION,
    "compute_cap": lambda _, card: card.board.cuda,
    "memory.total": lambda _, card: f"{card.board.memory} MiB",
}


def _query(arguments: Sequence[str]) -> Callable[[Driver], str] | None:
    options = dict(item.partition("=")[::2] for item in arguments)
    fields = options.pop("--query-gpu", "").replace(" ", "").split(",")
    shape = options.pop("--format", "").replace(" ", "").split(",")
    if options or shape[0] != "csv" or not all(name in _FIELDS for name in fields):
        return None

    def form(driver: Driver) -> str:
        rows = [
            ", ".join(_FIELDS[name](index, card) for name in fields)
            for index, card in enumerate(driver.cards)
        ]
        if "noheader" not in shape:
            rows.insert(0, ", ".join(_header(name, nounits="nounits" in shape) for name in fields))
        text = "".join(f"{row}\n" for row in rows)
        return text.replace(" MiB", "") if "nounits" in shape else text

    return form


def _header(name: str, *, nounits: bool) -> str:
    return f"{name} [MiB]" if name == "memory.total" and not nounits else name
