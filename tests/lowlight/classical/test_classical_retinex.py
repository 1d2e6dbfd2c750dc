"""MSRCR, GOLW, LIME, SRIE, WVM, JIEP: what their papers state, and slow twins."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.ndimage import gaussian_filter

sys.path.insert(0, str(Path(__file__).parent))

from dark_photos import clean, dark

from tecu.lowlight.classical import golw, jiep, lime, msrcr, srie, wvm
from tecu.lowlight.classical.pictures import brightest


def value():
    return brightest(dark())


def variation(plane):
    return float(np.abs(np.diff(plane, axis=0)).sum() + np.abs(np.diff(plane, axis=1)).sum())


class TestMSRCR:
    def test_the_retinex_does_not_see_the_strength_of_the_light(self):
        channels = clean() * np.float32(255) + 1
        assert np.allclose(msrcr.multi_scale(channels), msrcr.multi_scale(channels * np.float32(0.1)), atol=1e-4)

    @pytest.mark.parametrize("scale", msrcr.SCALES)
    def test_the_surround_against_a_gaussian_on_the_full_grid(self, scale):
        plane = np.ascontiguousarray(clean()[..., 1])
        wanted = gaussian_filter(plane.astype(np.float64), scale, mode="reflect")
        assert np.abs(msrcr.surround(plane, scale) / wanted - 1).max() < 0.02

    def test_colour_restoration_against_its_definition(self):
        channels = clean()[:4, :4] + 0.1
        found = msrcr.colour_restoration(channels)
        for i, j, c in np.ndindex(found.shape):
            assert found[i, j, c] == pytest.approx(np.log(125 * channels[i, j, c] / sum(channels[i, j])), rel=1e-4)

    def test_a_hundredth_of_each_channel_is_clipped_at_either_end_and_a_flat_one_stays(self):
        noise = np.random.default_rng(0).normal(size=(50, 40, 3)).astype(np.float32)
        result = msrcr.balanced(noise, np.ones_like(noise))
        assert np.allclose(np.mean(result <= 0, axis=(0, 1)), 0.01, atol=0.002)
        assert np.allclose(np.mean(result >= 1, axis=(0, 1)), 0.01, atol=0.002)
        flat = np.dstack([np.linspace(0, 1, 60).reshape(6, 10), np.full((6, 10), 0.7)]).astype(np.float32)
        kept = msrcr.balanced(flat, np.full((6, 10, 2), 52.0, np.float32))
        assert np.allclose(kept[..., 1], 0.2)
        assert np.ptp(kept[..., 0]) > 1


class TestGOLW:
    def test_the_system_against_dense_least_squares_over_result_and_windows(self):
        logs = np.random.default_rng(0).normal(size=(4, 5))
        c = golw.guidance(logs)
        index = np.pad(np.arange(20).reshape(4, 5), 1, mode="symmetric")
        rows, right = [], []
        for i in range(20):
            y, x = divmod(i, 5)
            for j in index[y : y + 3, x : x + 3].ravel():  # U_j - p_i L_j - q_i
                row = np.zeros(60)
                row[j] += 1
                row[20 + i], row[40 + i] = -logs.flat[j], -1
                rows.append(row)
                right.append(0.0)
            row = np.zeros(60)
            row[20 + i] = np.sqrt(golw.EPS) / c.flat[i]
            rows.append(row)
            right.append(np.sqrt(golw.EPS))
        solution = np.linalg.lstsq(np.array(rows), np.array(right), rcond=None)[0]
        wanted, mapped = solution[:20].reshape(4, 5), golw.tone_mapped(logs)
        assert np.allclose(mapped - mapped.mean(), wanted - wanted.mean(), atol=1e-5)
        slope, _ = golw.windows(logs, mapped, c)
        assert np.allclose(slope.ravel(), solution[20:40], atol=1e-5)

    def test_every_window_keeps_the_order_of_its_pixels(self):
        logs = np.log(np.maximum(value(), 1 / 255)).astype(np.float64)
        slope, _ = golw.windows(logs, golw.tone_mapped(logs), golw.guidance(logs))
        assert np.all(slope > 0)


class TestLIME:
    def test_the_light_against_a_direct_solver(self):
        light = value()[:40, :50].astype(np.float64)
        wanted = direct(np.ones_like(light), *lime.weights(light), light)
        found = lime.decompose(light, sweeps=12).z["I"]
        assert np.linalg.norm(found - wanted) < 0.02 * np.linalg.norm(wanted - light)

    def test_texture_goes_and_structure_stays(self):
        rng = np.random.default_rng(0)
        step = np.where(np.arange(60) < 30, 0.1, 0.6)[None, :] + np.zeros((40, 1))
        light = lime.decompose((step + rng.normal(0, 0.02, step.shape)).astype(np.float32)).z["I"]
        assert variation(light[:, :28]) < 0.1 * 0.02 * 40 * 28
        assert light[:, 32:].mean() - light[:, :28].mean() > 0.9 * 0.5

    def test_every_pixel_gets_brighter(self):
        assert np.all(lime.enhance(dark()) >= dark())

    def test_weights_against_a_loop(self):
        plane = value()[:6, :9].astype(np.float64)
        right, _ = lime.weights(plane)
        kernel = np.exp(-(np.arange(-2, 3) ** 2) / (2 * lime.SIGMA**2))
        kernel /= kernel.sum()
        slope = np.diff(plane, axis=1)
        padded = np.pad(slope, 2, mode="symmetric")
        for i, j in np.ndindex(slope.shape):
            around = sum(kernel[a] * kernel[b] * padded[i + a, j + b] for a in range(5) for b in range(5))
            wanted = lime.ALPHA / ((abs(around) + lime.EPS) * (abs(slope[i, j]) + lime.EPS))
            assert right[i, j] == pytest.approx(wanted, rel=1e-3)


def direct(diagonal, right, down, b):
    """``(q + sum_d grad_d^T w_d grad_d)^-1 b`` by a sparse factorisation."""
    height, width = b.shape

    def slope(n):
        return sparse.diags_array([-np.ones(n - 1), np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n))

    across = sparse.kron(sparse.eye_array(height), slope(width))
    along = sparse.kron(slope(height), sparse.eye_array(width))
    matrix = (
        sparse.diags_array(diagonal.ravel())
        + across.T @ sparse.diags_array(right.ravel()) @ across
        + along.T @ sparse.diags_array(down.ravel()) @ along
    )
    return sparse.linalg.spsolve(sparse.csc_array(matrix), b.ravel()).reshape(b.shape)


@pytest.mark.parametrize("method", [srie, wvm, jiep, lime], ids=lambda m: m.__name__.rpartition(".")[2])
class TestOnTheEngine:
    def test_the_certificate_holds_and_the_objective_falls(self, method):
        result = method.decompose(value(), sweeps=4)
        assert result.certificate.holds, result.certificate.summary()
        assert np.all(np.diff(result.history["value"]) <= 1e-6 * result.history["value"][:-1])


@pytest.mark.parametrize("method", [srie, wvm, jiep], ids=lambda m: m.__name__.rpartition(".")[2])
def test_no_pixel_is_saturated(method):
    assert np.all(method.enhance(dark() * 0.9).max(axis=2) < 1.0)


class TestSRIE:
    def test_the_model_against_loops(self):
        rng = np.random.default_rng(0)
        S, light, R = rng.uniform(0.1, 0.9, (3, 4, 5))
        d = rng.normal(size=(2, 4, 5))
        anchor, beta = srie.blurred(S), srie.BETA / 255**2
        total = 0.0
        for i, j in np.ndindex(4, 5):
            total += 0.5 * (light[i, j] * R[i, j] - S[i, j]) ** 2 + 0.5 * srie.GAMMA * (light[i, j] - anchor[i, j]) ** 2
            total += beta * (abs(d[0, i, j]) + abs(d[1, i, j]))
            for k, (y, x) in enumerate([(i, j + 1), (i + 1, j)]):
                if y < 4 and x < 5:
                    total += 0.5 * srie.ALPHA * (light[y, x] - light[i, j]) ** 2
                    total += 0.5 * beta * srie.LAMBDA * (R[y, x] - R[i, j] - d[k, i, j]) ** 2
        assert srie.problem(S).value({"I": light, "R": R, "d": d}) == pytest.approx(total, rel=1e-9)

    def test_the_light_is_smooth_and_the_reflectance_at_most_one(self):
        z = srie.decompose(value()).z
        assert variation(z["I"]) < 0.5 * variation(value())
        assert z["R"].max() <= 1.0

    def test_a_coarser_grid_gives_the_same_light(self):
        fine = srie.decompose(value()).z["I"]
        coarse = srie.decompose(value(), cells=value().size // 4).z["I"]
        means = fine.reshape(60, 2, 80, 2).mean(axis=(1, 3))
        assert np.abs(coarse - means).mean() < 0.05 * means.mean()


class TestWVM:
    def test_the_weights_against_loops(self):
        rng = np.random.default_rng(0)
        logs, light, r = rng.uniform(1, 5, (4, 5)), rng.uniform(1, 5, (4, 5)), -rng.uniform(0, 1, (4, 5))
        total = 0.0
        for i, j in np.ndindex(4, 5):
            total += 0.5 * (light[i, j] + r[i, j] - logs[i, j]) ** 2
            for y, x in [(i, j + 1), (i + 1, j)]:
                if y < 4 and x < 5:
                    total += (
                        0.5 * wvm.C2 * np.exp((light[i, j] + light[y, x]) / 2) ** 2 * (light[y, x] - light[i, j]) ** 2
                    )
                    step = r[y, x] - r[i, j]
                    total += 0.5 * wvm.C1 * np.exp((r[i, j] + r[y, x]) / 2) * step**2 / (abs(step) + wvm.EPS)
        assert wvm.problem(logs, light, r).value({"I": light, "R": r}) == pytest.approx(total, rel=1e-6)

    def test_dark_regions_are_smoothed_less_than_bright_ones(self):
        texture = 1 + 0.3 * (np.indices((40, 60)).sum(axis=0) % 2)
        plane = (texture * np.where(np.arange(60) < 30, 0.01, 0.5)).astype(np.float32)
        light = np.exp(wvm.decompose(plane, rounds=1).z["I"]) / 255

        def kept(region):
            return variation(np.log(light[:, region])) / variation(np.log(plane[:, region]))

        assert kept(slice(5, 25)) > 3 * kept(slice(35, 55))


class TestJIEP:
    def test_texture_is_smoothed_and_structure_is_not(self):
        texture = 0.3 + 0.05 * (-1.0) ** np.arange(60) + np.zeros((20, 1))
        ramp = 0.1 * np.arange(60) + np.zeros((20, 1))  # slopes as steep as the texture's
        right_texture, _ = jiep.shape_weights(texture.astype(np.float32))
        right_ramp, _ = jiep.shape_weights(ramp.astype(np.float32))
        assert right_texture[10, 30] > right_ramp[10, 30]

    def test_weights_against_loops(self):
        light = value()[:8, :10].astype(np.float64)
        right, _ = jiep.shape_weights(light)
        slope = np.diff(light, axis=1)
        padded = np.pad(slope, jiep.RADIUS, mode="edge")
        side = 2 * jiep.RADIUS + 1
        for i, j in np.ndindex(slope.shape):
            mean = sum(padded[i + a, j + b] for a in range(side) for b in range(side)) / side**2
            assert right[i, j] == pytest.approx(jiep.ALPHA / (abs(mean * slope[i, j]) + jiep.EPS), rel=1e-3)

    def test_the_bright_channel_is_the_largest_value_around(self):
        plane = value()[:12, :12]
        found, r = jiep.bright_channel(plane), jiep.RADIUS
        for i, j in np.ndindex(plane.shape):
            assert found[i, j] == plane[max(0, i - r) : i + r + 1, max(0, j - r) : j + r + 1].max()


@pytest.mark.parametrize("method", [srie, wvm, jiep, lime], ids=lambda m: m.__name__.rpartition(".")[2])
def test_a_large_photo_is_solved_on_a_coarser_grid_with_much_the_same_result(method, monkeypatch):
    whole = method.enhance(dark())
    monkeypatch.setattr("tecu.lowlight.classical.retinex.MOST_PIXELS", dark()[..., 0].size // 4)
    assert np.abs(method.enhance(dark()) - whole).mean() < 0.15 * whole.mean()
