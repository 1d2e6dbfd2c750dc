"""HE, BPDFHE, NPEA: what their papers state, and slow twins."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from dark_photos import dark

from tecu.lowlight.classical import bpdhe, he, npea
from tecu.lowlight.classical.pictures import brightest, levels, luma
from tecu.metrics import loe


def tilted(seed=0, shape=(14, 19)):
    return np.random.default_rng(seed).beta(1.0, 6.0, shape).astype(np.float32)


class TestHE:
    def test_it_is_the_share_of_darker_pixels(self):
        picture = np.rint(tilted() * 255) / np.float32(255)
        darkest = np.count_nonzero(picture <= picture.min())
        for value, mapped in zip(picture.ravel(), he.enhance(picture).ravel(), strict=True):
            wanted = (np.count_nonzero(picture <= value) - darkest) / (picture.size - darkest)
            assert mapped == pytest.approx(wanted, abs=1e-5)

    def test_the_histogram_becomes_even(self):
        result = brightest(he.enhance(dark()))
        shares = np.histogram(result, bins=8, range=(0, 1))[0] / result.size
        assert np.abs(shares - 1 / 8).max() < 0.03


class TestBPDFHE:
    def test_brightness_is_preserved(self):
        for picture in (dark(), tilted(1, (40, 50))):
            assert luma(bpdhe.enhance(picture)).mean() == pytest.approx(luma(picture).mean(), rel=0.02)

    def test_the_curve_rises(self):
        curve = bpdhe.dynamic_curve(np.bincount(levels(luma(dark())).ravel(), minlength=256))
        assert np.all(np.diff(curve) >= 0)
        assert (curve[0], curve[-1]) == (0.0, 1.0)

    def test_fuzzy_histogram_against_its_definition(self):
        pixels = np.random.default_rng(3).integers(0, 256, 50)
        wanted = [sum(max(0.0, 1 - abs(int(v) - i) / 4) for v in pixels) for i in range(256)]
        assert np.allclose(bpdhe.fuzzy_histogram(np.bincount(pixels, minlength=256)), wanted)

    def test_shares_of_the_range_against_their_definition(self):
        counts = np.bincount(levels(luma(dark())).ravel(), minlength=256)
        histogram, curve = bpdhe.fuzzy_histogram(counts), bpdhe.dynamic_curve(counts)
        edges = bpdhe.partition(histogram)
        assert all(histogram[i] >= max(histogram[i - 1], histogram[i + 1]) for i in edges[1:-1])
        factors = []
        for i in range(len(edges) - 1):
            pixels = sum(histogram[v] for v in range(edges[i], edges[i + 1] + 1))
            factors.append((edges[i + 1] - edges[i]) * np.log10(max(pixels, 1.0) + 1.0))
        for i, factor in enumerate(factors):
            assert curve[edges[i + 1]] - curve[edges[i]] == pytest.approx(factor / sum(factors))


class TestNPEA:
    def test_bright_pass_against_its_definition(self):
        value = tilted(2, (20, 9))
        level = levels(value)
        table = npea.neighbour_counts(level.astype(np.int32))
        height, width = value.shape
        radius = npea.PATCH // 2
        light = npea.bright_pass(value)
        for i in range(height):
            for j in range(width):
                weight = total = 0.0
                for y in range(max(0, i - radius), min(height, i + radius + 1)):
                    for x in range(max(0, j - radius), min(width, j + radius + 1)):
                        if level[y, x] >= level[i, j]:
                            weight += table[level[i, j], level[y, x]]
                            total += table[level[i, j], level[y, x]] * value[y, x]
                mean = total / weight if weight > 0 else 0.0
                assert light[i, j] == pytest.approx(max(mean, value[i, j]), abs=1e-5)

    def test_neighbour_counts_against_a_loop(self):
        level = levels(tilted(4, (6, 7))).astype(np.int32)
        counts = np.zeros((256, 256))
        for i in range(6):
            for j in range(7):
                for y in range(max(0, i - 1), min(6, i + 2)):
                    for x in range(max(0, j - 1), min(7, j + 2)):
                        if (y, x) != (i, j):
                            counts[level[i, j], level[y, x]] += 1
        half = npea.LEVEL_WINDOW // 2
        means = [
            [counts[k, max(0, m - half) : m + half + 1].sum() / npea.LEVEL_WINDOW for m in range(256)]
            for k in range(256)
        ]
        assert np.allclose(npea.neighbour_counts(level), means, atol=1e-4)

    def test_the_reflectance_is_at_most_one(self):
        value = brightest(dark())
        assert np.all(npea.bright_pass(value) >= value)

    def test_the_curve_rises_and_the_order_of_lightness_is_kept(self):
        assert np.all(np.diff(npea.bi_log_curve(npea.bright_pass(brightest(dark())))) >= 0)
        assert loe(npea.enhance(dark()), dark()) < 0.25 * loe(1.0 - dark(), dark())
