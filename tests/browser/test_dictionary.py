"""The dictionary tab, as someone uses it."""

import io

import numpy as np
import pytest
from playwright.sync_api import expect

from browser.acts import drop
from browser.conftest import shot
from tecu.dictionary import L0DictionaryLearning, make_sparse_data


@pytest.fixture
def matrix():
    X, _, _ = make_sparse_data(n_samples=800, n_features=25, n_components=40, n_nonzero=3, random_state=0)
    stream = io.BytesIO()
    np.save(stream, X)
    return X, stream.getvalue()


@pytest.mark.parametrize("kind", ["light", "dark", "phone"])
def test_a_dictionary_is_learnt_stopped_resumed_and_downloaded(open_page, matrix, tmp_path, kind):
    X, content = matrix
    page = open_page(kind)
    page.get_by_role("tab", name="Dictionary").click()
    shot(page, f"{kind}-dictionary-empty")
    drop(page, "#matrix-drop", {"patches.npy": content})
    expect(page.locator("#matrix-name")).to_have_text("patches.npy: 800 samples, 25 features")
    page.get_by_role("spinbutton", name="Atoms").fill("40")
    page.locator("#solver").select_option("palm")
    page.get_by_role("spinbutton", name="Sweeps").fill("600")
    page.get_by_role("spinbutton", name="Stop below").fill("0")
    page.get_by_role("button", name="Learn").click()
    expect(page.locator("#learning[data-state=running] #learning-certificate")).to_contain_text(
        "So far", timeout=90_000
    )
    expect(page.locator("#objective-plot svg")).to_be_visible()
    expect(page.locator("#atoms")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#learning[data-state=stopped]")).to_be_visible(timeout=60_000)
    stopped = int(page.locator("#learning-sentence").inner_text().split()[0])
    assert 0 < stopped < 600
    expect(page.locator("#learning-certificate")).to_contain_text("holds")
    shot(page, f"{kind}-dictionary-stopped")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#learning-sentence")).to_contain_text("600 sweeps.", timeout=120_000)
    expect(page.locator("#atoms-caption")).to_contain_text("sweep 600")
    shot(page, f"{kind}-dictionary")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download the model").click()
    waiting.value.save_as(tmp_path / "model.npz")
    model = L0DictionaryLearning.load(tmp_path / "model.npz")
    direct = L0DictionaryLearning(40, solver="palm", max_iter=600, tol=0.0, random_state=0).fit(X)
    assert np.allclose(model.components_, direct.components_)


def test_numbers_can_be_pasted(open_page):
    page = open_page()
    page.get_by_role("tab", name="Dictionary").click()
    page.get_by_text("Or paste numbers").click()
    page.locator("#paste").fill("1 2 3\n4 5")
    page.get_by_role("button", name="Take these numbers").click()
    expect(page.locator("#matrix-error")).to_contain_text("could not be read as a matrix")
    shot(page, "light-pasted-badly")
    page.locator("#paste").fill("1 2 3\n4 5 6\n2 1 0\n9 1 1")
    page.get_by_role("button", name="Take these numbers").click()
    expect(page.locator("#matrix-name")).to_have_text("pasted.csv: 4 samples, 3 features")
    expect(page.locator("#matrix-error")).to_have_text("")
    page.get_by_role("button", name="Learn").click()
    expect(page.locator("#learning-certificate")).to_contain_text("The certificate", timeout=90_000)
    expect(page.get_by_role("button", name="Download the model")).to_be_enabled()


def test_a_wrong_setting_is_told(open_page, matrix):
    page = open_page()
    page.get_by_role("tab", name="Dictionary").click()
    drop(page, "#matrix-drop", {"patches.npy": matrix[1]})
    page.get_by_role("spinbutton", name="Penalty").fill("0.1")
    page.get_by_role("spinbutton", name="Non-zeros").fill("2")
    page.get_by_role("button", name="Learn").click()
    expect(page.locator("#matrix-error")).to_contain_text("not both")
