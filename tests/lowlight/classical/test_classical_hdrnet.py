"""HDRNet: reading the grid, the exported network against the trained one, training."""

import numpy as np
import pytest

from tecu.lowlight.classical import hdrnet
from tecu.lowlight.classical.kernels_hdrnet import slice_and_apply

RNG = np.random.default_rng(0)


def random_case(height=3, width=7):
    picture = RNG.uniform(size=(height, width, 3)).astype(np.float32)
    grid = RNG.normal(size=(12, 8, 16, 16)).astype(np.float32)
    guide = RNG.uniform(size=(height, width)).astype(np.float32)
    return picture, grid, guide


def test_reading_the_grid_against_a_loop():
    picture, grid, guide = random_case()
    found = slice_and_apply(picture, grid, guide)

    def hat(position, cell, count):
        return max(0.0, 1.0 - abs(np.clip(position * count - 0.5, 0, count - 1) - cell))

    for i, j in np.ndindex(guide.shape):
        maps = np.zeros(12)
        for z, y, x in np.ndindex(8, 16, 16):
            share = hat(guide[i, j], z, 8) * hat((i + 0.5) / 3, y, 16) * hat((j + 0.5) / 7, x, 16)
            if share:
                maps += share * grid[:, z, y, x]
        wanted = maps.reshape(3, 4) @ np.append(picture[i, j], 1.0)
        assert np.allclose(found[i, j], wanted, atol=1e-4)


def test_a_grid_of_identities_leaves_the_picture_alone():
    picture, grid, guide = random_case()
    grid[:] = np.eye(3, 4, dtype=np.float32).reshape(12, 1, 1, 1)
    assert np.allclose(slice_and_apply(picture, grid, guide), picture, atol=1e-6)


def test_the_result_is_affine_in_the_grid():
    picture, first, guide = random_case()
    second = RNG.normal(size=first.shape).astype(np.float32)
    both = slice_and_apply(picture, first + second, guide)
    assert np.allclose(
        both, slice_and_apply(picture, first, guide) + slice_and_apply(picture, second, guide), atol=1e-3
    )


def test_models_of_other_methods_are_refused_in_a_sentence(tmp_path):
    from tecu.lowlight import Enhancer
    from tecu.lowlight.network import DEFAULT_MODEL

    with pytest.raises(ValueError, match="method 'hdrnet' needs 'low' and 'picture'"):
        Enhancer("hdrnet", model=DEFAULT_MODEL)
    with pytest.raises(ValueError, match="there is no file"):
        Enhancer("hdrnet", model=tmp_path / "none.onnx")
    with pytest.raises(ValueError, match="method 'lime' has no network"):
        Enhancer("lime", model=DEFAULT_MODEL)


class TestTraining:
    @pytest.fixture
    def training(self):
        pytest.importorskip("torch")
        pytest.importorskip("onnx")
        from tecu.lowlight.training import hdrnet as training

        return training

    def test_reading_the_grid_is_the_same_in_training_and_use(self, training):
        import torch

        picture, grid, guide = random_case()
        planes = torch.from_numpy(picture.transpose(2, 0, 1).copy())[None]
        trained = training.sliced(torch.from_numpy(grid)[None], torch.from_numpy(guide)[None, None], planes)
        assert np.allclose(trained[0].numpy().transpose(1, 2, 0), slice_and_apply(picture, grid, guide), atol=1e-4)

    def test_the_file_computes_what_the_network_computes(self, training, tmp_path):
        import torch

        torch.manual_seed(0)
        net = training.HdrNet()
        torch.nn.init.normal_(net.maps.weight, std=0.1)
        training.export(net, {"name": "test"}, tmp_path / "net.onnx")
        picture = RNG.uniform(size=(128, 128, 3)).astype(np.float32)
        grid, guide = hdrnet.grid_and_guide(picture, tmp_path / "net.onnx")
        planes = torch.from_numpy(picture.transpose(2, 0, 1).copy())[None]
        with torch.no_grad():
            assert np.allclose(grid, net.grid(planes)[0].numpy(), atol=1e-4)
            assert np.allclose(guide, net.guide(planes)[0, 0].numpy(), atol=1e-5)
            assert np.allclose(hdrnet.apply(picture, grid, guide), net(planes)[0].numpy().transpose(1, 2, 0), atol=1e-3)

    def test_weights_of_ones_own_are_taken_by_the_enhancer_and_the_command(self, training, tmp_path):
        from PIL import Image

        from tecu.cli.main import main
        from tecu.lowlight import Enhancer

        own = tmp_path / "own.onnx"
        training.export(training.HdrNet(), {"name": "test"}, own)  # untrained, it is the identity
        picture = RNG.integers(0, 60, (40, 50, 3), dtype=np.uint8)
        assert np.abs(Enhancer("hdrnet", model=own)(picture).astype(int) - picture).max() <= 1
        assert Enhancer("hdrnet")(picture).mean() > 1.5 * picture.mean()
        Image.fromarray(picture).save(tmp_path / "dark.png")
        command = ["enhance", str(tmp_path / "dark.png"), "-o", str(tmp_path / "out.png"), "--method", "hdrnet"]
        assert main([*command, "--model", str(own)]) == 0
        assert np.abs(np.asarray(Image.open(tmp_path / "out.png")).astype(int) - picture).max() <= 1

    def test_training_starts_at_the_identity_lowers_the_loss_and_repeats_itself(self, training):
        import torch

        from tecu.lowlight.training.photos import Photo

        planes = torch.rand(1, 3, 20, 30)
        with torch.no_grad():
            assert torch.allclose(training.HdrNet()(planes), planes, atol=1e-5)
        pixels = RNG.integers(0, 255, (100, 150, 3), dtype=np.uint8)
        photos = [Photo("a.png", pixels), Photo("b.png", pixels[::-1].copy())]
        settings = training.Settings(pairs=2, steps=6, batch=1)
        losses: list[float] = []
        first = training.train(photos, settings, report=lambda step, of, loss: losses.append(loss))
        dark, target = training.make_pairs(photos, 2, 0)
        dark, target = dark.float() / 65535, target.float() / 65535
        with torch.no_grad():
            after = torch.mean((first(dark) - target) ** 2)
        assert after < torch.mean((dark - target) ** 2)
        assert len(losses) == 1
        again = training.train(photos, settings)
        assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))

    def test_settings_are_checked(self, training):
        with pytest.raises(ValueError, match="settings: steps must be at least 1, got 0"):
            training.Settings(steps=0)
