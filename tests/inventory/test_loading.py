from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.inventory import InventoryError, Problem, check, load

SHIPPED = Path(__file__).resolve().parents[2] / "inventory"
FILES = sorted(SHIPPED.glob("*.yaml"))

TWO_POOLS = """\
name: bench
kind: cluster
clock: real
management: {kubeconfig: /home/me/kubeconfig, context: admin}
schematics:
  plain: {id: "%s"}
storageClasses:
  replicated: {drbd: true, replicas: 3}
pools:
  one:
    schematic: plain
    talosVersion: v1.13.6
    kubernetesVersion: v1.35
  two:
    schematic: plain
    talosVersion: v1.13.6
    kubernetesVersion: v1.35
""" % ("ab" * 32)


def at(problems: list[Problem], path: str) -> Problem:
    found = [problem for problem in problems if problem.path == path]
    assert len(found) == 1, [str(problem) for problem in problems]
    return found[0]


def test_every_shipped_file_loads(shipped: Path) -> None:
    assert check(shipped) == []
    assert load(shipped).name == shipped.stem


def test_a_wrong_value_has_its_line_path_and_choices(put: Callable[[Any], Path]) -> None:
    path = put(TWO_POOLS.replace("replicas: 3", "replicas: three"))
    problem = at(check(path), "storageClasses.replicated.replicas")
    assert (problem.file, problem.line) == (str(path), 8)
    assert problem.found == '"three"'
    assert "a whole number" in problem.allowed
    assert str(problem).startswith(f"{path}:8: storageClasses.replicated.replicas: found")


def test_unknown_key_names_the_nearest(put: Callable[[Any], Path]) -> None:
    text = TWO_POOLS.replace(
        "    schematic: plain\n", "    storage_class: x\n    schematic: plain\n"
    )
    problem = at(check(put(text)), "pools.one.storage_class")
    assert problem.line == 11
    assert problem.allowed.startswith("storageClass, as the nearest")


def test_python_spelling_is_no_second_spelling_of_a_key(put: Callable[[Any], Path]) -> None:
    text = TWO_POOLS.replace("kubernetesVersion: v1.35\n  two", "kubernetes_version: v1.35\n  two")
    found = {problem.path for problem in check(put(text))}
    assert found == {"pools.one.kubernetes_version", "pools.one.kubernetesVersion"}


def test_missing_key_points_at_the_part_that_lacks_it(put: Callable[[Any], Path]) -> None:
    text = TWO_POOLS.replace("  two:\n    schematic: plain\n", "  two:\n")
    problem = at(check(put(text)), "pools.two.schematic")
    assert (problem.line, problem.found) == (14, "nothing")
    assert "schematics" in problem.allowed


def test_duplicate_key_names_both_lines(put: Callable[[Any], Path]) -> None:
    text = TWO_POOLS.replace("  two:", "  one:")
    problem = at(check(put(text)), "pools.one")
    assert problem.line == 14
    assert "first in line 10" in problem.found


def test_a_bad_first_value_is_told_beside_the_duplicate(put: Callable[[Any], Path]) -> None:
    text = TWO_POOLS + "    replicas: many\n    replicas: 2\n"
    lines = {p.line for p in check(put(text)) if p.path == "pools.two.replicas"}
    assert lines == {18, 19}


def test_everything_is_told_at_once_and_in_order_of_lines(put: Callable[[Any], Path]) -> None:
    text = (
        TWO_POOLS.replace("kind: cluster", "kind: clutser")
        .replace("clock: real\n", "clock: real\nclock: real\n")
        .replace("{drbd: true, replicas: 3}", "{drbd: yes, replicas: 3}")
        .replace("  two:\n    schematic: plain", "  two:\n    schematic: plane")
        .replace("context: admin", "contxt: admin")
    )
    problems = check(put(text))
    assert [problem.path for problem in problems] == [
        "kind",
        "clock",
        "management.context",
        "management.contxt",
        "storageClasses.replicated.drbd",
        "pools.two.schematic",
    ]
    assert problems[0].allowed.startswith("cluster, as the nearest")
    with pytest.raises(InventoryError) as raised:
        load(put(text))
    assert raised.value.problems == tuple(problems)
    assert "the inventory has 6 problems:" in str(raised.value)
    assert all(str(problem) in str(raised.value) for problem in problems)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("name: [a\n", 1),
        ("name: a\n  kind: b\n", 2),
        ("a: 1\nb: @x\n", 2),
        ("a: 1\nb: \x01\n", 2),
        ("a: *nobody\n", 1),
        ("a: 1\n---\nb: 2\n", 2),
        ("\ta: 1\n", 1),
    ],
)
def test_broken_yaml_has_a_line(put: Callable[[Any], Path], text: str, line: int) -> None:
    [problem] = check(put(text))
    assert problem.line == line
    assert problem.found


@pytest.mark.parametrize("text", ["", "# nothing\n", "~\n", "- a\n", "text\n", "7\n"])
def test_a_file_that_is_no_mapping_is_one_problem(put: Callable[[Any], Path], text: str) -> None:
    [problem] = check(put(text))
    assert problem.line == 1
    assert problem.allowed


def test_missing_file_directory_and_other_encoding(
    put: Callable[[Any], Path], tmp_path: Path
) -> None:
    [missing] = check(tmp_path / "none.yaml")
    [folder] = check(tmp_path)
    [nul] = check("a\0b")
    assert missing.line == folder.line == nul.line == 0
    assert "No such file" in missing.found
    [latin] = check(put(b"name: a\ndescription: \xe9\n"))
    assert (latin.line, latin.allowed) == (2, "UTF-8 text")


def test_nesting_too_deep_is_a_problem(put: Callable[[Any], Path]) -> None:
    [problem] = check(put("[" * 5000))
    assert "too deep" in problem.found


def test_empty_value_is_refused_even_where_absence_is_fine(put: Callable[[Any], Path]) -> None:
    text = TWO_POOLS + "    kernelModules:\n"
    problem = at(check(put(text)), "pools.two.kernelModules")
    assert (problem.line, problem.found) == (18, "no value")


def test_aliases_and_tags_are_refused(put: Callable[[Any], Path]) -> None:
    text = TWO_POOLS.replace("  one:", "  one: &one").replace(
        "  two:\n    schematic: plain\n    talosVersion: v1.13.6\n    kubernetesVersion: v1.35\n",
        "  two: *one\n",
    )
    assert at(check(put(text)), "pools.two").found == "an alias"
    assert check(put("a: &a [*a]\n"))
    tagged = TWO_POOLS.replace("name: bench", "name: !!python/name:os.system bench")
    assert "tag" in at(check(put(tagged)), "name").found
    tagged = TWO_POOLS.replace("schematics:", "schematics: !!omap")
    assert "tag" in at(check(put(tagged)), "schematics").found


def test_plain_words_of_yaml_1_1_stay_words(put: Callable[[Any], Path]) -> None:
    text = TWO_POOLS.replace("context: admin", "context: on").replace("name: bench", "name: no")
    lab = load(put(text))
    assert lab.name == "no"
    assert lab.management is not None
    assert lab.management.context == "on"


@pytest.mark.parametrize(
    "secret",
    [
        "-----BEGIN EC PRIVATE KEY-----",
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln",
        "ghp_0123456789abcdefghij",
        "abcdef.0123456789abcdef",
        "https://me:hunter2@lab.example",
        "c2VjcmV0" * 10 + "Zz==",
        "apiVersion: v1 kind: Config client-key-data AAAA",
    ],
)
@pytest.mark.parametrize("place", ["description", "kubeconfig", "key"])
def test_inline_secrets_are_refused_and_never_repeated(
    put: Callable[[Any], Path], secret: str, place: str
) -> None:
    text = {
        "description": TWO_POOLS + f'description: "{secret}"\n',
        "kubeconfig": TWO_POOLS.replace("/home/me/kubeconfig", f'"{secret}"'),
        "key": TWO_POOLS + f'"{secret}": 1\n',
    }[place]
    with pytest.raises(InventoryError) as raised:
        load(put(text))
    assert secret not in str(raised.value)
    assert "looks like" in str(raised.value)


def test_a_literal_where_a_reference_belongs_is_withheld(put: Callable[[Any], Path]) -> None:
    text = TWO_POOLS + "hosts:\n  - {name: a, ssh: hunter2}\n"
    problem = at(check(put(text)), "hosts[0].ssh")
    assert "hunter2" not in str(problem)
    assert "{file: /absolute/path} or {env: NAME}" in problem.allowed


def test_claims_of_lanes_are_looked_up_when_known(put: Callable[[Any], Path]) -> None:
    text = TWO_POOLS + "lanes:\n  nightly: {pools: [one], exclude: [node-join]}\n"
    path = put(text)
    assert check(path) == []
    problem = at(check(path, claims=["node-joins", "passthrough"]), "lanes.nightly.exclude[0]")
    assert "node-joins" in problem.allowed
    assert problem.line == 19


CHARACTERS = ":-{}[],&*!|>'\"#%@` \t\n\0\x85\u2028\ufeffé"
WORDS = ["null", "~", "true", "1", "1.5", "1e400", "9" * 30, "[]", "{}", "- ", "a: b\n", "? "]
MARKS = ["\n---\n", "<<: ", "!!set ", "&a ", "*a", "\n  pools:\n", "kernelModules: []\n"]
FRAGMENTS = st.sampled_from([*CHARACTERS, *WORDS, *MARKS])


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_mutation_loads_or_tells_its_problems(
    data: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = data.draw(st.sampled_from(FILES)).read_text(encoding="utf-8")
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 40))
        patch = data.draw(FRAGMENTS | st.text(max_size=8) | st.just(""))
        text = text[:start] + patch + text[start + length :]
    path = tmp_path_factory.mktemp("mutated") / "lab.yaml"
    raw = text.encode("utf-8", "surrogatepass")
    path.write_bytes(raw)
    problems = check(path)
    last = max(1, len(text.splitlines()))
    for problem in problems:
        assert 1 <= problem.line <= last
        assert problem.found
        assert problem.allowed
    if not problems:
        assert load(path).sets


SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=6)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_value_in_any_place_loads_or_tells_its_problems(
    data: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = yaml.safe_load((SHIPPED / "lab-l40s.yaml").read_text(encoding="utf-8"))
    part: Any = whole
    path: list[tuple[Any, Any]] = []
    while isinstance(part, (dict, list)) and part and (not path or data.draw(st.booleans())):
        key = data.draw(
            st.sampled_from(sorted(part) if isinstance(part, dict) else range(len(part)))
        )
        path.append((part, key))
        part = part[key]
    holder, key = path[-1]
    holder[key] = data.draw(VALUES)
    file = tmp_path_factory.mktemp("changed") / "lab.yaml"
    file.write_text(yaml.safe_dump(whole, allow_unicode=True), encoding="utf-8")
    problems = check(file)
    assert all(problem.line >= 1 for problem in problems)
    assert problems or load(file)
