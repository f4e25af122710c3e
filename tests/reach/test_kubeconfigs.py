from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.reach.errors import KubeconfigMissing, KubeconfigUnreadable, LabError, NoSuchContext
from harness.reach.kubeconfigs import Entry, from_files, from_text, outward


def config(name: str = "lab", *, cluster: Any = None, user: Any = None, **more: Any) -> str:
    document = {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": f"c-{name}", "user": f"u-{name}"}}],
        "clusters": [
            {"name": f"c-{name}", "cluster": {"server": f"https://{name}"} | (cluster or {})}
        ],
        "users": [{"name": f"u-{name}", "user": user or {}}],
    }
    return yaml.safe_dump(document | more)


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_path_counts_from_the_file_it_stands_in(tmp_path: Path) -> None:
    user = {
        "client-certificate": "me.crt",
        "client-key": "/abs/me.key",
        "tokenFile": "../token",
        "exec": {"command": "bin/login"},
    }
    path = put(
        tmp_path, "deep/config", config(cluster={"certificate-authority": "ca.pem"}, user=user)
    )
    found = from_files([path])
    assert found.cluster["certificate-authority"] == str(tmp_path / "deep/ca.pem")
    assert found.user["client-certificate"] == str(tmp_path / "deep/me.crt")
    assert found.user["client-key"] == "/abs/me.key"
    assert found.user["tokenFile"] == str(tmp_path / "deep/../token")
    assert found.user["exec"]["command"] == str(tmp_path / "deep/bin/login")


def test_a_program_without_a_folder_is_looked_for_where_programs_are() -> None:
    assert from_text(config(user={"exec": {"command": "aws"}})).user["exec"]["command"] == "aws"


def test_of_several_files_the_first_to_name_a_thing_wins(tmp_path: Path) -> None:
    one = put(tmp_path, "one/config", config("a", cluster={"certificate-authority": "ca"}))
    two = put(tmp_path, "two/config", config("a", user={"token": "late"}))
    three = put(tmp_path, "three/config", config("b", cluster={"certificate-authority": "ca"}))
    paths = [tmp_path / "nowhere", one, two, three]
    assert from_files(paths).cluster["certificate-authority"] == str(tmp_path / "one/ca")
    assert from_files(paths).user == {}
    assert from_files(paths, "b").cluster["certificate-authority"] == str(tmp_path / "three/ca")


def test_a_current_context_may_stand_in_a_later_file(tmp_path: Path) -> None:
    one = put(tmp_path, "one", config("a", **{"current-context": ""}))
    two = put(tmp_path, "two", config("b"))
    assert from_files([one, two]).cluster["server"] == "https://b"


def test_nothing_is_there_at_all(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigMissing, match="no such file") as caught:
        from_files([tmp_path / "x", tmp_path / "y"])
    assert f"{tmp_path / 'x'}:{tmp_path / 'y'}" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"clusters": []}, "cluster 'c-lab', which is not in it"),
        ({"users": []}, "user 'u-lab', which is not in it"),
        ({"clusters": [{"name": "c-lab", "cluster": {}}]}, "without a server"),
        ({"clusters": [{"name": "c-lab", "cluster": None}]}, "without a server"),
        ({"clusters": [{"name": "c-lab", "cluster": "x"}]}, "which is not in it"),
        ({"clusters": "x"}, "which is not in it"),
    ],
)
def test_what_points_to_nothing_is_said(change: dict[str, Any], says: str) -> None:
    with pytest.raises(KubeconfigUnreadable, match=says):
        from_text(config(**change))


def test_a_context_without_a_user_is_an_anonymous_one() -> None:
    text = config(contexts=[{"name": "lab", "context": {"cluster": "c-lab"}}])
    assert from_text(text).user == {}


def test_an_empty_value_is_none() -> None:
    """As tools write it that know of no other way to say so."""
    user = {"token": "", "username": None, "client-key": "/k", "client-certificate": ""}
    found = from_text(config(cluster={"proxy-url": ""}, user=user))
    assert (found.user, found.cluster) == ({"client-key": "/k"}, {"server": "https://lab"})
    assert from_text(config(users=[{"name": "u-lab", "user": None}])).user == {}
    assert from_text(config(users=[{"name": "u-lab"}])).user == {}


SECRET = "eyJhbGciOiJub25lIn0.c2VjcmV0"


@pytest.mark.parametrize(
    "text",
    [
        f"users:\n\t- token: {SECRET}",
        f"token: !{SECRET} x",
        f"token: *{SECRET}",
        f"a: &{SECRET} 1\nb: &{SECRET} 2\n---\n{SECRET}",
        f"[{SECRET}\n{{",
        config(cluster={"server": f"https://me:{SECRET}@lab"}),
    ],
)
def test_what_is_wrong_is_told_without_what_stands_there(text: str) -> None:
    with pytest.raises(KubeconfigUnreadable) as caught:
        from_text(text)
    assert SECRET[:8] not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert re.search(r"line \d|address", str(caught.value))


@pytest.mark.parametrize(
    ("cluster", "user", "asked"),
    [
        ({}, {"token": "x", "client-key-data": "eA=="}, ()),
        ({"certificate-authority": "/ca"}, {}, ("certificate-authority",)),
        ({}, {"exec": {"command": "x"}, "tokenFile": "/t"}, ("tokenFile", "exec")),
        (
            {},
            {"client-certificate": "/c", "client-key": "/k"},
            ("client-certificate", "client-key"),
        ),
    ],
)
def test_what_reaches_out_to_this_machine(
    cluster: dict[str, Any], user: dict[str, Any], asked: tuple[str, ...]
) -> None:
    assert outward(from_text(config(cluster=cluster, user=user))) == asked


SCRAPS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "context", "cluster", "user", "server", "exec", "command"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.fixed_dictionaries({"contexts": SCRAPS, "clusters": SCRAPS, "users": SCRAPS}),
    st.sampled_from(["", "lab"]),
)
def test_whatever_it_holds_it_is_an_entry_or_a_sentence(document: Any, context: str) -> None:
    try:
        assert isinstance(from_text(yaml.safe_dump(document), context), Entry)
    except LabError as said:
        assert isinstance(said, KubeconfigUnreadable | NoSuchContext)
        assert "\n" not in str(said)
