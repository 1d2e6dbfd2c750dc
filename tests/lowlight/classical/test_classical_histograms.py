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


def two_humps(low=60, high=190):
    """Counts with a peak at each of two levels and a valley between them."""
    level = np.arange(256)
    return np.rint(1000 * np.exp(-(((level - low) / 12.0) ** 2)) + 800 * np.exp(-(((level - high) / 12.0) ** 2)) + 2)


class TestPlainHE:
    def test_it_is_the_share_of_darker_pixels(self):
        picture = np.rint(tilted() * 255) / np.float32(255)
        darkest = np.count_nonzero(picture <= picture.min())
        for value, mapped in zip(picture.ravel(), he.plain(picture).ravel(), strict=True):
            wanted = (np.count_nonzero(picture <= value) - darkest) / (picture.size - darkest)
            assert mapped == pytest.approx(wanted, abs=1e-5)

    def test_the_histogram_becomes_even(self):
        result = brightest(he.plain(dark()))
        shares = np.histogram(result, bins=8, range=(0, 1))[0] / result.size
        assert np.abs(shares - 1 / 8).max() < 0.03


class TestHE:
    def test_peaks_and_valley_of_two_humps(self):
        counts = two_humps()
        assert he.peaks(counts) == [60, 190]
        (valley,) = he.valleys(counts)
        assert counts[valley] == counts[60:191].min()

    def test_small_close_and_shallow_peaks_do_not_count(self):
        small, close, shallow = two_humps(), two_humps(100, 112), np.full(256, 900.0)
        small[120:125] += [10, 20, 30, 20, 10]
        shallow[[40, 200]] = 1000
        assert he.peaks(small) == [60, 190]
        assert len(he.peaks(close)) == 1
        assert len(he.peaks(shallow)) == 1

    def test_each_piece_is_equalised_in_its_own_range(self):
        counts = two_humps()
        curve, (valley,) = he.multi_peak_curve(counts), he.valleys(counts)
        for a, b in ((0, valley), (valley, 255)):
            assert (curve[a] * 255, curve[b] * 255) == (pytest.approx(a), pytest.approx(b))
            pixels = sum(counts[v] for v in range(a + 1, b + 1))
            for v in range(a + 1, b + 1):
                wanted = a + (b - a) * sum(counts[w] for w in range(a + 1, v + 1)) / pixels
                assert curve[v] * 255 == pytest.approx(wanted)

    def test_one_hump_is_equalised_as_a_whole(self):
        counts = two_humps(60, 60)
        assert he.valleys(counts) == []
        assert np.allclose(he.multi_peak_curve(counts)[1:], np.cumsum(counts[1:]) / counts[1:].sum())

    def test_local_information_raises_what_stands_out(self):
        value = np.full((9, 9), 0.5, np.float32)
        value[0, 0], value[-1, -1], value[4, 4] = 0.0, 1.0, 0.6
        with_it, without = he.generalised(value), he.generalised(value, weight=0.0)
        assert with_it[4, 4] > without[4, 4]
        assert np.allclose(without, value)


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
