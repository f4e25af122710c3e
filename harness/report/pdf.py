"""A page as PDF, by WeasyPrint, which is an optional extra: nothing else here needs it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from harness.report.atomic import write_bytes

MODULE = "weasyprint"


class NoPdf(Exception):
    """No PDF can be written here; the message says what to install."""


def need() -> Any:
    """WeasyPrint. NoPdf where it, or the Pango that it draws with, is not there."""
    try:
        return import_module(MODULE)
    except ImportError as error:
        raise NoPdf(
            "a PDF needs WeasyPrint, which is not installed: pip install 'hil[pdf]', or print the "
            "HTML page from a browser"
        ) from error
    except OSError as error:
        raise NoPdf(
            "a PDF needs Pango, which WeasyPrint does not find: install libpango-1.0-0 and "
            f"libpangoft2-1.0-0 (Debian's names) ({error})"
        ) from error


def write_pdf(html: str, path: Path) -> Path:
    """Write the page at ``path``, the same way each time. NoPdf; OSError when the disk refuses.

    The page must hold all that it shows: nothing is fetched.
    """
    drawn: bytes = need().HTML(string=html, url_fetcher=_fetch_nothing).write_pdf()
    return write_bytes(path, drawn)


def _fetch_nothing(url: str, *_: Any, **__: Any) -> NoReturn:
    raise ValueError(f"the page asks for {url}, and a sign-off loads nothing")
