"""Files of a page are replaced together, and drafts of them lie elsewhere."""

from bdkn_paper.pages.section import drafts


def test_drafts_are_not_in_the_folder_where_a_killed_process_would_leave_them(tmp_path):
    (tmp_path / "page.html").write_text("old")
    with drafts(tmp_path) as draft:
        (draft / "page.html").write_text("new")
        assert [item.name for item in tmp_path.iterdir()] == ["page.html"]
        assert (tmp_path / "page.html").read_text() == "old"
    assert (tmp_path / "page.html").read_text() == "new"
    assert not draft.exists()
