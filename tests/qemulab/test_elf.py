from __future__ import annotations

import pytest

from harness.qemulab.elf import module_info, needed
from tests.qemulab.elves import elf


def test_the_libraries_of_a_program_are_read_in_its_order() -> None:
    assert needed(elf("libc.so.6", "libssl.so.3")) == ["libc.so.6", "libssl.so.3"]


def test_a_static_program_loads_none() -> None:
    assert needed(elf(dynamic=False)) == []


@pytest.mark.parametrize("length", [10, 63, 100, 150])
def test_a_cut_file_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="cut ELF file"):
        needed(elf("libc.so.6")[:length])


def test_what_is_no_elf_file_is_refused() -> None:
    with pytest.raises(ValueError, match="no 64-bit"):
        needed(b"#!/bin/sh\n")


def test_a_module_says_what_it_depends_on() -> None:
    module = b"\x7fELF\0\0license=GPL\0depends=lru_cache,libcrc32c\0not_depends=x\0name=drbd\0"
    assert module_info(module, "depends") == ["lru_cache,libcrc32c"]
    assert module_info(module, "name") == ["drbd"]
    assert module_info(module, "version") == []
