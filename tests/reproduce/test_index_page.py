"""All tables and figures of a folder on one page."""

from tecu.reproduce.index_page import sections_of, write_index


def test_a_page_with_every_table_and_figure(tmp_path):
    (tmp_path / "table1.md").write_text("# One\n\n| n | s |\n|---|---|\n| 64 | <b> |\n\n## Claims\n\n- it **holds**\n")
    (tmp_path / "table2.md").write_text("# Two\n\nA word with `code`.\n")
    (tmp_path / "figure1.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    page = write_index(tmp_path).read_text(encoding="utf-8")
    for part in (
        "<h2>table1: One</h2>",
        "<h2>table1: Claims</h2>",
        "<h2>table2: Two</h2>",
        "<h2>figure1</h2>",
        "data:image/svg+xml",
    ):
        assert part in page
    assert "<th>n</th>" in page
    assert "<td>&lt;b&gt;</td>" in page
    assert "<li>it <strong>holds</strong></li>" in page
    assert "<code>code</code>" in page
    assert "http://" not in page.replace("http-equiv", "")


def test_headings_without_a_body_are_left_out():
    assert [section.title for section in sections_of("# Empty\n\n## Full\n\nwords\n")] == ["Full"]


def test_a_row_of_dashes_is_a_row():
    (section,) = sections_of("# T\n\n| a |\n|---|\n| - |\n")
    assert "<td>-</td>" in section.body
