from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jinja2
import pytest

from harness.claims.catalogue import load
from harness.facts.fact import Fact
from harness.judge.verdict import Outcome, Verdict
from harness.report import signoff
from harness.report.ledger import Ledger, merge, read
from harness.report.outcome import summarise
from harness.report.records import Record
from harness.report.rundir import RunInfo
from tests.report.published import assert_valid

TEMPLATES = signoff.templates_of(Path(__file__).resolve().parents[2])
EVIL = "<script>alert('x')</script><img src=http://evil.example/x> \" onload=\"y"
Facts = Callable[..., Fact]
Verdicts = Callable[..., Verdict]


def run_info(**more: Any) -> RunInfo:
    fields: dict[str, Any] = {
        "run_id": "20260101-000000-lab-l40s-0a1b",
        "lab": "lab-l40s",
        "lane": "sign-off",
        "started": 1767225600.0,
        "ended": 1767229200.0,
        "subject": "Cozystack v1.4.0",
        "versions": {"cozystack": "v1.4.0", "talos": "v1.12.1", "hil": "0.1.0"},
        "inventory_sha256": "ab" * 32,
        "exit": 0,
    }
    return RunInfo(**(fields | more))


def platform(version: str, reason: str = "") -> Record:
    """What a cluster told of the platform that is installed on it."""
    values = {"version": version, "sources": [], "reason": reason}
    line = {"record": "fact", "id": "p", "kind": "PlatformVersion", "values": values}
    return Record("fact", "pool-p", 1, line)


def build(
    run: Path,
    kind: str = "cluster",
    platforms: Sequence[Record] = (platform("v1.4.0"),),
    **more: Any,
) -> dict[str, Any]:
    view = read(run)
    view = replace(view, records=(*view.records, *platforms))
    shown = signoff.document(view, summarise(view), run_info(kind=kind, **more), load())
    assert_valid(shown)
    return shown


class Page(HTMLParser):
    """Text, tags and attributes of a page, and whether its tags close in order."""

    VOID = {"meta", "br", "img", "link", "input", "hr"}

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)


def page(run: Path, **more: Any) -> Page:
    parsed = Page(signoff.render(build(run, **more), [TEMPLATES]))
    assert parsed.open == []
    return parsed


def all_hold(run: Path, verdict: Verdicts) -> Path:
    with Ledger(run, "pool") as ledger:
        ledger.planned("modules", "gpu-l40s", ["modules-live"], hardware="L40S")
        ledger.verdict(verdict("modules-live"), scenario="modules", pool="gpu-l40s", at=1.0)
    merge(run, ["pool"])
    return run


def test_the_page_says_every_claim_pool_and_reason(written: Path) -> None:
    merge(written, ["plan", "gpu-l40s", "gpu-gb202"])
    shown = build(written)
    text = page(written).text
    for claim in shown["claims"]:
        assert claim["id"] in text
        assert claim["sentence"] == load()[claim["id"]].sentence
        assert claim["sentence"] in text
        for row in claim["rows"]:
            assert row["pool"] in text and row["hardware"] in text and row["because"] in text
    for word in ("established", "broken", "unknown", "not run", "not established"):
        assert word in text
    assert "the lab has no H100" in text and "no card free" in text
    assert shown["ledger"]["sha256"] in text
    for part in ("Cozystack v1.4.0", "v1.12.1", "sign-off", "lab-l40s", "2026-01-01T01:00:00Z"):
        assert part in text


def test_numbers_of_scenarios_come_before_any_claim(written: Path) -> None:
    text = page(written).text
    planned = text.index("scenarios planned")
    assert "3 scenarios planned" in text and "1 reported" in text and "2 missing" in text
    assert planned < text.index("modules-live")
    order = ("What this run did not establish", "Not shown by this run", "Signature", "Facts")
    places = [text.index(heading) for heading in order]
    assert planned < places[0] and places == sorted(places)


def test_each_finding_leads_to_its_facts(written: Path) -> None:
    parsed = page(written)
    targets = {value for _, name, value in parsed.attributes if name == "id"}
    links = [value for tag, name, value in parsed.attributes if (tag, name) == ("a", "href")]
    assert links and all(link[0] == "#" and link[1:] in targets for link in links)
    assert "gpu-l40s/f1" in targets
    assert "guest hil-gpu-x7k2p:/proc/modules" in parsed.text
    assert "modules-live 1 0 - Live 0x0" in parsed.text


def test_the_page_loads_nothing(written: Path) -> None:
    html = signoff.render(build(written), [TEMPLATES])
    parsed = Page(html)
    assert not {"script", "img", "link", "iframe", "object", "embed", "base"} & set(parsed.tags)
    assert not [
        item for item in parsed.attributes if item[1] in ("src", "srcset", "style", "action")
    ]
    assert "http://" not in html and "https://" not in html
    assert "url(" not in html and "@import" not in html
    assert ("meta", "content", "default-src 'none'; style-src 'unsafe-inline'") in parsed.attributes


def test_whatever_was_seen_is_text_on_the_page(tmp_path: Path, fact: Facts) -> None:
    seen = fact(
        EVIL, source=EVIL, raw=f"{EVIL}\n\x1b[31mred\x00\u202etxt \udc80", detail={EVIL: EVIL}
    )
    judged = Verdict(EVIL, EVIL, Outcome.HOLDS, EVIL, (seen,))
    with Ledger(tmp_path, "pool") as ledger:
        ledger.planned(EVIL, EVIL, [EVIL, "never"], hardware=EVIL)
        ledger.verdict(judged, scenario=EVIL, pool=EVIL, at=1.0)
        ledger.not_established(EVIL, EVIL, EVIL)
    with ledger.path.open("a") as shard:
        shard.write(f"half a line {EVIL}")
    parsed = page(
        tmp_path, run_id=EVIL, lab=EVIL, lane=EVIL, subject=EVIL, fault=EVIL, versions={EVIL: EVIL}
    )
    assert not {"script", "img"} & set(parsed.tags)
    assert not [item for item in parsed.attributes if item[1].startswith("on")]
    assert parsed.text.count("alert('x')") > 10
    assert "\x1b" not in parsed.text and "\u202e" not in parsed.text
    assert "\\x1b[31mred\\x00\\u202etxt \\udc80" in parsed.text


def test_a_run_in_which_all_holds_can_be_signed(tmp_path: Path, verdict: Verdicts) -> None:
    shown = build(all_hold(tmp_path, verdict))
    assert (shown["signable"], shown["obstacles"]) == (True, [])
    assert shown["headline"] == "Every claim planned is established"
    assert "Nothing that was planned is open." in page(tmp_path).text


@pytest.mark.parametrize(
    ("more", "obstacle"),
    [({"fault": "nvlink-param-missing"}, "fault"), ({"exit": 3}, "exit status 3")],
    ids=["fault", "exit"],
)
def test_what_the_ledger_cannot_know_stands_in_the_way(
    tmp_path: Path, verdict: Verdicts, more: dict[str, Any], obstacle: str
) -> None:
    shown = build(all_hold(tmp_path, verdict), **more)
    assert not shown["signable"]
    assert obstacle in " ".join(shown["obstacles"])
    assert "Not ready to sign" in page(tmp_path, **more).text


def test_a_run_that_was_killed_is_not_ready_to_sign(tmp_path: Path, verdict: Verdicts) -> None:
    all_hold(tmp_path, verdict)
    (tmp_path / "ledger.jsonl").unlink()
    shown = build(tmp_path, ended=None, exit=None)
    assert "before its ledger was joined" in " ".join(shown["obstacles"])
    assert "not recorded" in page(tmp_path, ended=None, exit=None).text


def test_broken_unknown_not_run_and_missing_stand_in_the_way(written: Path) -> None:
    merge(written, ["plan"])
    assert build(written)["obstacles"] == [
        "1 claim broken",
        "1 claim unknown",
        "2 claims not run",
        "2 of 3 planned scenarios missing",
    ]


def test_what_the_lab_lacks_is_in_the_headline(tmp_path: Path, verdict: Verdicts) -> None:
    with Ledger(tmp_path, "plan") as plan:
        plan.not_established("passthrough", "gpu-h100", "the lab has no H100")
    shown = build(all_hold(tmp_path, verdict))
    assert shown["signable"]
    assert shown["headline"].endswith("1 claim not")


def test_nothing_established_is_nothing_to_sign(tmp_path: Path) -> None:
    Ledger(tmp_path, "plan").close()
    merge(tmp_path, ["plan"])
    shown = build(tmp_path)
    assert shown["obstacles"] == ["no claim established"]
    assert "No claim was planned and none was reported." in page(tmp_path).text


def test_both_files_say_the_same(written: Path, tmp_path: Path) -> None:
    shown = build(written)
    html, data = signoff.write(shown, tmp_path / "out", [TEMPLATES])
    assert json.loads(data.read_text()) == shown
    assert shown["schema"] == "hil.signoff/1"
    assert html.read_text(encoding="utf-8") == signoff.render(shown, [TEMPLATES])


def test_a_site_s_own_template_comes_first(written: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "signoff.html.j2").write_text("{{ headline }} at our site")
    shown = build(written)
    assert signoff.render(shown, [own, TEMPLATES]) == "Not ready to sign at our site"


def test_a_template_that_asks_for_what_is_not_there_fails(written: Path, tmp_path: Path) -> None:
    (tmp_path / "signoff.html.j2").write_text("{{ no_such_thing }}")
    with pytest.raises(jinja2.UndefinedError):
        signoff.render(build(written), [tmp_path])


def test_long_texts_are_excerpts_that_say_so(tmp_path: Path, fact: Facts) -> None:
    raw = "".join(f"line {number};\n" for number in range(100))
    judged = Verdict("modules-live", "n", Outcome.HOLDS, "seen", (fact("a" * 5000, raw=raw),))
    with Ledger(tmp_path, "pool") as ledger:
        ledger.verdict(judged, scenario="s", pool="p", at=1.0)
    (shown,) = build(tmp_path)["facts"].values()
    assert "line 47;" in shown["raw"] and "line 48;" not in shown["raw"]
    assert shown["raw_note"] == "52 more lines in the ledger" and not shown["raw_whole"]
    assert all(len(value) < 300 for value in shown["values"].values())


@pytest.mark.parametrize(
    ("raw", "opened"), [("nvidia 1 0 - Live 0x0\n", 1), ('{"kind": "Node"}', 0)]
)
def test_a_text_that_fits_is_on_paper_and_an_object_is_not(
    tmp_path: Path, fact: Facts, raw: str, opened: int
) -> None:
    judged = Verdict("modules-live", "n", Outcome.HOLDS, "seen", (fact("a", raw=raw),))
    with Ledger(tmp_path, "pool") as ledger:
        ledger.verdict(judged, scenario="s", pool="p", at=1.0)
    parsed = page(tmp_path)
    assert raw.strip() in parsed.text
    assert parsed.attributes.count(("details", "open", "")) == opened


def test_a_simulated_lab_is_no_evidence_for_a_release(tmp_path: Path, verdict: Verdicts) -> None:
    shown = build(all_hold(tmp_path, verdict), kind="twin")
    assert (shown["signable"], shown["obstacles"]) == (False, ["the lab was simulated"])
    assert shown["headline"] == "Every claim planned is established. No evidence for a release"
    text = page(tmp_path, kind="twin").text
    assert "simulated" in text[: text.index("scenarios planned")]
    assert "every machine of this lab was simulated" in text


def test_a_lab_of_unknown_kind_is_not_taken_for_real(tmp_path: Path, verdict: Verdicts) -> None:
    shown = build(all_hold(tmp_path, verdict), kind="")
    assert shown["obstacles"] == ["the run does not record whether its lab was real"]
    assert "not recorded : the lab may have been real or simulated" in page(tmp_path, kind="").text
    assert build(tmp_path, kind="paper")["obstacles"] == shown["obstacles"]


def test_a_mini_lab_is_real_and_no_evidence_for_a_release(
    tmp_path: Path, verdict: Verdicts
) -> None:
    shown = build(all_hold(tmp_path, verdict), kind="qemu")
    assert not shown["signable"]
    assert shown["headline"] == "Every claim planned is established. No evidence for a release"
    assert [item for item in shown["obstacles"] if "nothing of the release" in item]
    assert "simulated" not in " ".join(shown["obstacles"])
    text = page(tmp_path, kind="qemu").text
    assert "QEMU guests and DRBD on one machine" in text[: text.index("scenarios planned")]
    assert "was simulated" not in text


@pytest.mark.parametrize(
    ("kind", "name"),
    [("twin", "simulated"), ("qemu", "mini-lab"), ("cluster", "cluster"), ("", "not recorded")],
)
def test_each_claim_says_on_what_it_was_established(
    tmp_path: Path, verdict: Verdicts, kind: str, name: str
) -> None:
    shown = build(all_hold(tmp_path, verdict), kind=kind)
    assert shown["substrate"]["name"] == name
    assert [row["substrate"] for claim in shown["claims"] for row in claim["rows"]] == [name]
    text = page(tmp_path, kind=kind).text
    evidence = text[text.index("What each claim rests on") :]
    assert f"gpu-l40s on L40S ({name})" in evidence


def test_a_release_without_a_name_cannot_be_signed(tmp_path: Path, verdict: Verdicts) -> None:
    all_hold(tmp_path, verdict)
    # the versions of the tools that looked say nothing of what was looked at
    shown = build(tmp_path, subject="", versions={"hil": "0.1.0"})
    assert shown["obstacles"] == ["the run does not record which release it tested"]
    assert "No release named" in page(tmp_path, subject="", versions={}).text
    assert build(tmp_path)["signable"]


@pytest.mark.parametrize(
    ("platforms", "obstacles"),
    [
        ((), ["the run does not record which platform is installed"]),
        (
            (platform("v1.3.9"),),
            ["the platform installed is 'Cozystack v1.3.9', and not 'Cozystack v1.4.0'"],
        ),
        (
            (platform("", "403 Forbidden"),),
            ["the platform installed is unknown: 403 Forbidden"],
        ),
        (
            (platform("v1.4.0"), platform("v1.4.1")),
            [
                "the platform installed is 'Cozystack v1.4.1', and not 'Cozystack v1.4.0'",
                "the platform changed during the run: Cozystack v1.4.0, Cozystack v1.4.1",
            ],
        ),
    ],
)
def test_what_is_installed_has_to_be_what_is_named(
    tmp_path: Path, verdict: Verdicts, platforms: Sequence[Record], obstacles: list[str]
) -> None:
    shown = build(all_hold(tmp_path, verdict), platforms=platforms)
    assert (shown["signable"], shown["obstacles"]) == (False, obstacles)
    for kind in ("twin", "qemu"):
        there = build(tmp_path, kind, platforms=())["obstacles"]
        assert not [one for one in there if "platform" in one]


def test_what_is_installed_is_shown_apart_from_what_is_said(
    tmp_path: Path, verdict: Verdicts
) -> None:
    shown = build(all_hold(tmp_path, verdict), platforms=(platform("v1.4.0"),))
    values = {one["item"]: [v["value"] for v in one["values"]] for one in shown["identity"]}
    assert values["platform"] == ["Cozystack v1.4.0"]
    assert "Cozystack v1.4.0" in values["subject"]
    text = page(tmp_path, platforms=(), kind="qemu").text
    assert "Platform installed not recorded" in text


def test_what_established_claims_leave_open_is_told(written: Path) -> None:
    merge(written, ["plan", "gpu-l40s", "gpu-gb202"])
    shown = build(written)["not_shown"]
    # nvlink-param is broken here, so nothing of it needs a reservation
    assert [item["claim"] for item in shown["claims"]] == ["modules-live"]
    assert shown["claims"][0]["text"] == load()["modules-live"].not_shown
    text = page(written).text
    assert load()["modules-live"].not_shown in text
    assert all(limit in text for limit in shown["run"])


def test_the_need_of_a_parameter_is_never_signed(tmp_path: Path, verdict: Verdicts) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        ledger.verdict(verdict("nvlink-param"), scenario="s", pool="gpu-l40s", at=1.0)
    text = page(tmp_path).text
    assert "nvlink-param : That a card needs NvLinkDisable=1." in text


def test_one_reason_on_two_pools_is_told_once(tmp_path: Path, verdict: Verdicts) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        for pool, because in {"a": "same", "b": "same", "c": "other"}.items():
            given = verdict("modules-live", "broken", because)
            ledger.verdict(given, scenario="s", pool=pool, at=1.0)
    found = build(tmp_path)["open"]
    told = [(item["because"], [at["pool"] for at in item["where"]]) for item in found]
    assert told == [("same", ["a", "b"]), ("other", ["c"])]


def test_the_worst_is_told_first(written: Path) -> None:
    outcomes = [item["outcome"] for item in build(written)["open"]]
    assert outcomes == ["broken", "unknown", "not-run", "not-run", "not-established"]


def test_what_no_pool_can_show_stands_on_each(tmp_path: Path, verdict: Verdicts) -> None:
    with Ledger(tmp_path, "plan") as plan:
        plan.not_established("passthrough", "", "no pool has a card")
    shown = build(all_hold(tmp_path, verdict))
    assert [pool["pool"] for pool in shown["pools"]] == ["gpu-l40s"]
    cells = {claim["id"]: claim["cells"] for claim in shown["claims"]}
    assert cells == {"modules-live": ["holds"], "passthrough": ["not-established"]}


def test_a_reference_run_has_its_chain_link_by_link(tmp_path: Path, verdict: Verdicts) -> None:
    asked = ["uptime", "cdi-injection", "cuda-runs", "passthrough"]
    with Ledger(tmp_path, "pool") as ledger:
        ledger.planned("s", "gpu-l40s", asked, hardware="L40S")
        for claim in asked:
            given = verdict(claim, because=f"{claim} was seen {EVIL}")
            ledger.verdict(given, scenario="s", pool="gpu-l40s", at=1.0)
    merge(tmp_path, ["pool"])
    (chain,) = build(tmp_path)["chains"]
    order = ["passthrough", "cdi-injection", "cuda-runs", "uptime"]
    assert [link["claim"] for link in chain["links"]] == order
    parsed = page(tmp_path)
    text = parsed.text
    start = text.index("The chain on gpu-l40s, L40S")
    places = [text.index(f"{claim} was seen", start) for claim in order]
    assert places == sorted(places) and places[-1] < text.index("Not shown by this run")
    assert "script" not in parsed.tags


def test_no_chain_without_the_whole_of_it(written: Path) -> None:
    assert build(written)["chains"] == []
    assert "The chain on" not in page(written).text


class Drawn:
    """What the page takes of a picture."""

    svg = "<svg viewBox='0 0 1 1'><title>boots</title></svg>"
    says = "Boots & window"


def test_pictures_are_shown_as_they_are_and_their_words_are_text(written: Path) -> None:
    html = signoff.render(build(written), [TEMPLATES], [Drawn()])
    assert f'<figure class="picture">{Drawn.svg}<figcaption>Boots &amp; window' in html
    assert "<h2>Pictures</h2>" not in signoff.render(build(written), [TEMPLATES])


def test_probable_causes_stand_with_what_is_open(tmp_path: Path, verdict: Verdicts) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        ledger.verdict(verdict("modules-live", "broken"), scenario="s", pool="gpu", at=1.0)
        ledger.evidence(
            scenario="s",
            pool="gpu",
            at=1.0,
            folder="evidence/s--gpu",
            score={"planned": 4, "taken": 3},
            status="named",
            causes=["x"],
            diagnosis=f"the driver is gone {EVIL}",
        )
    text = page(tmp_path).text
    assert "gpu: probable cause: the driver is gone <script>" in text
    assert "3 of 4 planned parts were answered; 1 of 1 failures have a cause named" in text
