"""Runs and verdicts as plain HTML for notebooks and pages; imports nothing heavy."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tecu.certificate import MEANING

if TYPE_CHECKING:
    from tecu.certificate import Certificate
    from tecu.state import Result, Visit

MOST_VIOLATIONS = 20  # listed one by one


def certificate_html(certificate: Certificate) -> str:
    """The verdict, what it rests on, what is assumed, and the visits that are not covered."""
    mark, kind = ("✓", "verdict") if certificate.holds else ("✗", "verdict broken")
    meaning = f"<p>{_text(MEANING)}</p>" if certificate.holds else ""
    verdict = (
        f'<p class="{kind}"><strong>{mark} {_text(certificate.verdict.value)}</strong><br>'
        f"The certificate {_text(certificate.reason)}</p>{meaning}"
    )
    falls = f"Phi falls by at least {certificate.descent_a:.3g} ‖move‖² a visit"
    facts = [
        ("visits", f"{certificate.visits} in {certificate.iterations} iterations"),
        ("fallbacks", f"{certificate.fallbacks} (a strategy was overruled by a safe step; the theorem covers them)"),
        ("violations", f"{len(certificate.violations)} (visits that the theorem does not cover)"),
        ("descent", falls if certificate.visits else "no block was visited"),
        ("rounding allowed", f"{certificate.slack:.3g} when Phi is compared"),
        ("residual", f"‖P‖ = {certificate.residual:.3g}, P an element of the subdifferential of Phi at the end"),
    ]
    assumed = "".join(f"<li>{_text(sentence)}</li>" for sentence in certificate.assumptions)
    advice = "".join(f"<p>Advice: {_text(sentence)}.</p>" for sentence in certificate.advice)
    return (
        f"{verdict}{table_html((), facts)}{advice}"
        f"<p>Assumed, because nobody can compute it:</p><ul>{assumed}</ul>{_violations(certificate.violations)}"
    )


def result_html(result: Result) -> str:
    """How the run ended, its figures, its blocks, and the verdict."""
    facts = [
        ("status", result.status.value),
        ("objective", f"{result.value:.6g}"),
        ("iterations", f"{result.iterations} in {result.state.seconds:.3g} s"),
        ("blocks", ", ".join(f"{name}: {_shape(block)}" for name, block in result.z.items())),
    ]
    return f"{table_html((), facts)}{certificate_html(result.certificate)}"


def outcomes_html(visits: Iterable[Visit]) -> str:
    """How often each block's visits ended in which way."""
    counted = Counter((visit.block, visit.kind, visit.outcome.value) for visit in visits)
    rows = [(*key, str(number)) for key, number in counted.items()]
    return table_html(("block", "update", "how it went", "visits"), rows) if rows else ""


def table_html(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table, columns of numbers to the right. Without heads the first column is the head of its row."""
    lines = [[str(cell) for cell in row] for row in rows]
    right = [bool(heads) and all(_is_number(line[k]) for line in lines) for k in range(len(lines[0]) if lines else 0)]
    side = [' class="number"' if number else "" for number in right] or [""] * len(heads)
    top = "".join(f'<th scope="col"{s}>{_text(head)}</th>' for head, s in zip(heads, side, strict=bool(heads)))
    body = []
    for line in lines:
        cells = [f"<td{s}>{_text(cell)}</td>" for cell, s in zip(line, side, strict=True)]
        if not heads:
            cells[0] = f'<th scope="row">{_text(line[0])}</th>'
        body.append(f"<tr>{''.join(cells)}</tr>")
    head = f"<thead><tr>{top}</tr></thead>" if heads else ""
    return f'<div class="wide"><table>{head}<tbody>{"".join(body)}</tbody></table></div>'


def _violations(violations: Sequence[Visit]) -> str:
    if not violations:
        return ""
    rows = [(str(v.sweep), v.block, v.outcome.value, v.fault or "") for v in violations[:MOST_VIOLATIONS]]
    more = len(violations) - len(rows)
    rest = f"<p>... and {more} more.</p>" if more else ""
    return f"<p>Not covered:</p>{table_html(('iteration', 'block', 'update', 'why'), rows)}{rest}"


def _shape(block: object) -> str:
    return " × ".join(str(side) for side in getattr(block, "shape", ()))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell == "-"  # a number that is not there
    return True


def _text(value: str) -> str:
    return html.escape(value)
