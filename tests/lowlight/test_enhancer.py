"""The enhancer: kinds, shapes, identity, highlights, good photos, noise."""

import io
import struct
import sys
import tracemalloc
import types
import zlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms, ImageOps

from lowlight.scenes import dark_scene, darkened, inks_profile, photo, psnr
from tecu.lowlight import Enhancer, enhance
from tecu.lowlight.files import Photo, encode_photo, read_photo
from tecu.metrics import ssim

DARK = dark_scene()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", ["HW", "HW1", "HW2", "HW3", "HW4", "NHW3"])
def test_same_kind_comes_back(dtype, shape):
    base = DARK.astype(np.float64) / 255
    image = {
        "HW": base[..., 0], "HW1": base[..., :1], "HW2": base[..., :2], "HW3": base,
        "HW4": np.concatenate([base, base[..., :1]], -1), "NHW3": np.stack([base, base[::-1]]),
    }[shape]  # fmt: skip
    image = np.rint(image * np.iinfo(dtype).max).astype(dtype) if np.dtype(dtype).kind == "u" else image.astype(dtype)
    before = image.copy()
    result = enhance(image)
    assert (result.shape, result.dtype) == (image.shape, image.dtype)
    assert np.array_equal(image, before)
    assert result[..., 0].mean() > image[..., 0].mean()
    if shape in ("HW2", "HW4"):
        assert np.array_equal(result[..., -1], image[..., -1])  # transparency


def test_depths_agree():
    eight = enhance(DARK) / 255.0
    sixteen = enhance(DARK.astype(np.uint16) * 257) / 65535.0
    floats = enhance(DARK.astype(np.float32) / 255)
    assert np.abs(eight - floats).max() < 0.01
    assert np.abs(sixteen - floats).max() < 0.01


def test_batch_is_picture_by_picture():
    batch = np.stack([DARK, DARK[::-1]])
    assert np.array_equal(enhance(batch)[1], enhance(DARK[::-1]))


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "P", "1", "CMYK", "I;16", "F"])
def test_pil_images(mode):
    if mode == "I;16":
        image = Image.fromarray(DARK[..., 0].astype(np.uint16) * 257)
    elif mode == "F":
        image = Image.fromarray(DARK[..., 0].astype(np.float32) / 255)
    else:
        image = Image.fromarray(DARK).convert(mode)
    result = enhance(image)
    assert isinstance(result, Image.Image)
    assert result.size == image.size
    if mode not in ("P", "1", "CMYK"):
        assert result.mode == image.mode


def test_torch_tensors_of_half_precision_keep_their_kind():
    torch = pytest.importorskip("torch")
    exact = torch.from_numpy(DARK.astype(np.float32) / 255)
    for kind in (torch.float16, torch.bfloat16):
        short = exact.to(kind)
        result = enhance(short)
        assert result.dtype is kind
        assert torch.equal(result, enhance(short.to(torch.float32)).to(kind))


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    image = torch.from_numpy(DARK.copy())
    result = enhance(image)
    assert isinstance(result, torch.Tensor)
    assert result.dtype == image.dtype
    assert np.array_equal(result.numpy(), enhance(DARK))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("method", ["tecu", "paper", "pam", "he"])
def test_strength_zero_is_the_identity(dtype, method):
    image = DARK.astype(dtype) if np.dtype(dtype).kind == "u" else DARK.astype(dtype) / 255
    assert np.array_equal(Enhancer(method, strength=0)(image), image)


def test_more_strength_is_brighter():
    means = [float(enhance(DARK, strength=s).mean()) for s in (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)]
    assert all(later > earlier for earlier, later in pairwise(means))


@pytest.mark.parametrize("image", [
    np.zeros((1, 1, 3), np.uint8), np.full((1, 1), 7, np.uint8), np.zeros((40, 30, 3), np.uint8),
    np.full((40, 30, 3), 255, np.uint8), np.full((1, 300, 3), 9, np.uint8), np.full((300, 1, 3), 9, np.uint8),
    np.full((2, 3, 3), 1.0), np.zeros((5, 5)),
], ids=lambda image: f"{image.shape} {image.flat[0]}")  # fmt: skip
def test_odd_pictures(image):
    result = enhance(image)
    assert result.shape == image.shape
    assert np.all(np.isfinite(result))
    if image.max() == 0 or image.min() == (255 if image.dtype == np.uint8 else 1.0):
        assert np.abs(result.astype(float) - image).max() <= (1 if image.dtype == np.uint8 else 1 / 255)


@pytest.mark.parametrize("strength", [0.3, 1.0, 1.4, 2.0])
@pytest.mark.parametrize("stops", [0.0, 1.0, 3.0])
def test_no_pixel_is_newly_saturated(stops, strength):
    lamps = darkened(photo(), stops=stops)
    lamps[20:40, 30:60] = 254
    lamps[60:70, 30:60] = 255
    lamps[80:90, 30:60] = [254, 120, 10]
    result = enhance(lamps, strength=strength)
    assert not np.any((result == 255) & (lamps < 255))


def well_exposed(name):
    """The photo with its mean brought to the middle: one of them is a low-key picture."""
    pixels = photo(name)
    return pixels if pixels.mean() > 90 else np.rint(255 * (pixels / 255.0) ** 0.5).astype(np.uint8)


@pytest.mark.parametrize("name", ["china.jpg", "flower.jpg"])
def test_good_photo_is_left_nearly_alone(name):
    assert psnr(enhance(well_exposed(name)), well_exposed(name)) > 24


@pytest.mark.parametrize("name", ["china.jpg", "flower.jpg"])
@pytest.mark.parametrize("stops", [3.0, 5.0])
def test_dark_photo_comes_closer_to_the_original(name, stops):
    clean = well_exposed(name)
    dark = darkened(clean, stops)
    assert psnr(enhance(dark), clean) > psnr(dark, clean) + 4


def test_denoising_brings_a_noisy_picture_closer_to_the_one_without_noise():
    quiet, noisy = darkened(photo(), stops=5.0), darkened(photo(), stops=5.0, noise=0.012)
    enhancer, plain = Enhancer(), Enhancer(denoise=False)
    exposure = enhancer.analyse(noisy)
    aim = plain.apply(quiet, exposure)
    assert psnr(enhancer.apply(noisy, exposure), aim) > psnr(plain.apply(noisy, exposure), aim) + 1


def test_denoising_leaves_a_picture_without_noise_alone():
    for stops in (0.0, 1.0, 2.0):
        pixels = darkened(photo(), stops=stops)
        assert ssim(Enhancer()(pixels), Enhancer(denoise=False)(pixels)) > 0.98


def test_good_photo_is_not_smoothed():
    assert np.array_equal(Enhancer()(photo()), Enhancer(denoise=False)(photo()))


def test_colours_keep_their_order():
    """One gain for all channels and one monotone curve: what was redder stays redder."""
    result = Enhancer(denoise=False)(DARK).astype(int)
    before = DARK.astype(int)
    for a, b in ((0, 1), (1, 2), (0, 2)):
        assert np.all((result[..., a] >= result[..., b])[before[..., a] >= before[..., b]])


def test_decompose_holds_little_beside_the_layers():
    large = np.tile(DARK, (1 + 1500 // DARK.shape[0], 1 + 2000 // DARK.shape[1], 1))
    Enhancer().decompose(DARK)  # what is loaded once
    tracemalloc.start()
    parts = Enhancer().decompose(large)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * (parts.illumination.nbytes + parts.reflectance.nbytes)


def test_decompose_gives_parts_that_multiply_to_the_picture():
    parts = Enhancer().decompose(DARK)
    assert parts.illumination.shape == DARK.shape[:2]
    assert np.allclose(parts.illumination[..., None] * parts.reflectance, DARK / 255.0, atol=1e-5)
    assert parts.certificate.holds
    assert len(parts.history["value"]) >= 2
    assert Enhancer().decompose(DARK[..., 0]).reflectance.shape == DARK.shape[:2]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "F"])
def test_the_reflectance_of_a_pil_image_has_the_colours_of_its_result(mode):
    grey = DARK[..., 0]
    deep = {"I;16": np.uint16(grey) * 257, "F": np.float32(grey / 255)}
    image = Image.fromarray(deep[mode]) if mode in deep else Image.fromarray(DARK).convert(mode)
    colours = [band for band in enhance(image).getbands() if band != "A"]
    parts = Enhancer().decompose(image)
    assert np.prod(parts.reflectance.shape) == np.prod(parts.illumination.shape) * len(colours)


@pytest.mark.parametrize("method", ["tecu", "hdrnet"])
def test_a_model_that_is_no_path_is_refused_by_its_name(method):
    with pytest.raises(TypeError, match=r"^model: expected the path of an ONNX file, got bytes$"):
        Enhancer(method, model=b"onnx")


def test_methods_without_a_network_take_no_model(tmp_path):
    for method in ("pam", "he"):
        with pytest.raises(ValueError, match=f"method '{method}' has no network; 'tecu', 'paper' and 'hdrnet' take"):
            Enhancer(method, model=tmp_path / "any.onnx")


def tinted_night():
    """A street at night whose black was cut off at a colour, with lamps."""
    picture = np.full((120, 180, 3), [20, 8, 12], np.uint8)
    picture[40:] += darkened(photo(size=(180, 80)), stops=3.0)
    picture[50:60, 20:60] = [250, 240, 200]
    return picture


@pytest.mark.parametrize(
    "settings", [{}, {"headroom": 0.6}, {"strength": 0.5}, {"strength": 1.7}, {"method": "pam"}], ids=str
)
@pytest.mark.parametrize(
    "picture", [DARK, photo(), tinted_night(), tinted_night()[..., :1]], ids=["dark", "good", "tinted", "grey"]
)
def test_the_layers_are_the_light_that_made_the_result(picture, settings):
    enhancer = Enhancer(**settings, denoise=False)
    exposure, parts = enhancer.analyse(picture), enhancer.decompose(picture)
    assert any(exposure.cast) == np.array_equal(picture, tinted_night())
    observed = (picture / 255.0).astype(np.float32)
    assert np.allclose(parts.illumination[..., None] * parts.reflectance, observed, atol=1e-5)
    bare = exposure.bare(observed)
    gain = exposure.tone.gain(bare.max(axis=-1), parts.illumination, exposure.headroom)
    assert np.all(gain >= parts.illumination**-exposure.tone.exponent * (1 - 1e-6))  # more only by a lift
    raised = bare * gain[..., None]
    expected = np.interp(raised, np.linspace(0, 1, len(exposure.tone.curve)), exposure.tone.curve)
    seen = exposure.bare(observed).max(axis=-1) > 17 / 255  # what is nearly black is dimmed beside
    assert seen.mean() > 0.1
    assert np.abs(enhancer(picture) - 255 * expected)[seen].max() < 1.01  # rounding, and white that stays free


def test_exposures_blend():
    enhancer = Enhancer()
    first, second = enhancer.analyse(DARK), enhancer.analyse(dark_scene(light=0.4))
    mixed = first.blend(second, 0.5)
    between = sorted([first.tone.exponent, second.tone.exponent])
    assert between[0] <= mixed.tone.exponent <= between[1]
    assert first.blend(second, 1.0).noise == second.noise
    assert np.array_equal(enhancer.apply(DARK, first), enhancer(DARK))


@pytest.mark.parametrize(("image", "words"), [
    (np.zeros((4, 4, 5), np.uint8), "shape"), (np.zeros((0, 4, 3), np.uint8), "shape"),
    (np.zeros((4, 4, 3), np.int32), "uint8"), (np.full((4, 4), np.nan), "NaN"), (np.full((4, 4), 2.0), "2"),
    ([["a", "b"]], "uint8"),
], ids=lambda value: str(getattr(value, "shape", value)))  # fmt: skip
def test_refusals(image, words):
    with pytest.raises((TypeError, ValueError), match=words):
        enhance(image)


@pytest.mark.parametrize("name", ["dark.jpg", Path("dark.jpg"), b"\xff\xd8"])
def test_the_name_of_a_file_is_told_how_to_be_read(name):
    with pytest.raises(TypeError, match=r"expected an array, a tensor or a PIL image, got .*PIL\.Image\.open"):
        enhance(name)


@pytest.mark.parametrize("shape", [(3, 24, 30), (1, 24, 30), (2, 3, 24, 30)])
def test_channels_before_rows_are_told_where_they_belong_and_the_advice_works(shape):
    torch = pytest.importorskip("torch")
    first = np.random.default_rng(0).integers(0, 40, shape, dtype=np.uint8)
    tensor = torch.from_numpy(first)
    for image in (first, tensor):
        with pytest.raises(ValueError, match=r"channels come last: np\.moveaxis\(image, -3, -1\), or image\.movedim"):
            enhance(image)
    assert np.array_equal(enhance(np.moveaxis(first, -3, -1)), enhance(tensor.movedim(-3, -1)).numpy())
    with pytest.raises(ValueError, match=r"got shape \(24, 30, 9\)$"):
        enhance(np.zeros((24, 30, 9), np.uint8))


@pytest.mark.parametrize("denoise", ["no", "False", None, 2])
def test_denoise_is_yes_or_no(denoise):
    with pytest.raises(ValueError, match="denoise must be True or False"):
        Enhancer(denoise=denoise)
    assert not Enhancer(denoise=np.False_).denoise
    assert Enhancer(denoise=1).denoise


@pytest.mark.parametrize("strength", [-0.1, 2.1, float("nan"), "1"])
def test_strength_is_checked(strength):
    with pytest.raises(ValueError, match="strength"):
        Enhancer(strength=strength)


@pytest.mark.parametrize("method", ["magic", ["tecu"], {"tecu": 1}, None, 5], ids=str)
def test_unknown_method_is_answered_with_the_known_ones(method):
    with pytest.raises(ValueError, match=r"'tecu'.*'lime'"):
        Enhancer(method)


def test_a_method_of_ones_own_may_work_in_place(own):
    """Strength blends its result with the picture, not with what it has made of the picture."""
    own.method = lambda picture: np.sqrt(picture, out=picture)
    for strength in (0.5, 1.0, 1.5):
        assert np.array_equal(Enhancer("own:method", strength)(DARK), Enhancer("numpy:sqrt", strength)(DARK))


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (lambda picture: picture[..., 0], "must give floats in"),
        (lambda picture: picture.reshape(-1), "must give floats in"),
        (lambda picture: np.uint8(255 * picture), "got uint8 of shape"),
        (lambda picture: picture > 0.1, "got bool of shape"),
        (lambda picture: picture + 0j, "got complex64 of shape"),
        (lambda picture: picture * np.nan, "gave values that are not finite"),
        (lambda picture: picture + np.inf, "gave values that are not finite"),
        (lambda picture: None, "got NoneType"),
        (lambda picture: [[1.0], [1.0, 2.0]], "must give an array, got list"),
    ],
)
def test_what_is_no_picture_is_refused_by_the_name_of_the_method(own, method, sentence):
    own.method = method
    with pytest.raises(ValueError, match=f"method 'own:method' .*{sentence}"):
        Enhancer("own:method")(DARK)


@pytest.mark.parametrize("code", [None, 3, "enough", DARK])
def test_a_method_that_ends_the_program_is_refused_in_a_line(own, code):
    def leave(picture):
        sys.exit(code)

    own.method = leave
    with pytest.raises(ValueError, match=r"^method 'own:method': it ends the program[^\n]*\Z"):
        Enhancer("own:method")(DARK)


@pytest.fixture
def own(monkeypatch):
    """A module ``own``, to be filled."""
    module = types.ModuleType("own")
    monkeypatch.setitem(sys.modules, "own", module)
    return module


def test_a_classical_method_renders_no_exposure():
    """It would be the result of another method under its name."""
    dark = np.full((16, 24, 3), 20, np.uint8)
    exposure = Enhancer("pam").analyse(dark)
    for strength in (0.0, 1.0):
        with pytest.raises(ValueError, match="apply: method 'he' has no decomposition; 'tecu', "):
            Enhancer("he", strength=strength).apply(dark, exposure)


def test_classical_methods_by_name():
    result = Enhancer("he")(DARK)
    assert result.dtype == np.uint8
    assert result.mean() > DARK.mean()
    with pytest.raises(ValueError, match="decomposition"):
        Enhancer("he").decompose(DARK)


@pytest.mark.parametrize("margin", [0, 255])
def test_pixels_that_are_not_seen_have_no_say(margin):
    dark = np.random.default_rng(0).integers(0, 40, (60, 80, 3), dtype=np.uint8)
    picture = np.full((120, 160, 4), margin, np.uint8)
    picture[..., 3] = 0
    picture[30:90, 40:120, :3], picture[30:90, 40:120, 3] = dark, 255
    result = enhance(picture)
    other = picture.copy()
    other[..., :3][picture[..., 3] == 0] = 90
    np.testing.assert_array_equal(result[30:90, 40:120], enhance(other)[30:90, 40:120])
    np.testing.assert_array_equal(result[picture[..., 3] == 0], picture[picture[..., 3] == 0])
    assert result[30:90, 40:120, :3].mean() > 3 * dark.mean()


@pytest.mark.parametrize("shown", [0, 1, 40, 60])
@pytest.mark.parametrize("channels", [2, 4])
def test_pixels_that_are_not_seen_stay_as_they_are_however_many(shown, channels):
    picture = np.random.default_rng(0).integers(0, 40, (60, 80, channels), dtype=np.uint8)
    picture[..., -1] = 0
    picture[:shown, ..., -1] = 255
    assert np.array_equal(enhance(picture)[shown:], picture[shown:])
    assert Enhancer().decompose(picture).illumination.shape == (60, 80)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
@pytest.mark.parametrize("shape", [(200, 300, 3), (900, 1200, 3)])
def test_black_stays_black(shape, kind):
    assert enhance(np.zeros(shape, kind)).max() == 0


def test_sparse_noise_in_black_is_smoothed_everywhere_or_nowhere():
    random = np.random.default_rng(0)
    picture = np.zeros((480, 640, 3), np.uint8)
    seen = random.random((480, 640)) < np.linspace(0.05, 0.6, 640)
    picture[...] = (seen * random.integers(1, 3, (480, 640)))[..., None]
    picture[60:120, 200:400] = 200
    share = Enhancer().analyse(picture).smoothing()[1]
    assert share[share.shape[0] // 2 :].min() > 0.9


def test_a_pil_image_keeps_what_it_says_of_itself():
    from PIL import Image

    image = Image.fromarray(np.full((20, 30, 3), 20, np.uint8))
    image.info.update(icc_profile=b"profile", dpi=(300, 300))
    assert enhance(image).info == {"icc_profile": b"profile", "dpi": (300, 300)}
    with pytest.raises(TypeError, match="mode 'I'"):
        enhance(Image.fromarray(np.zeros((9, 9), np.int32)))


def opened(image, format, **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return Image.open(file), file.getvalue()


@pytest.mark.parametrize("format", ["TIFF", "PNG", "JPEG"])
@pytest.mark.parametrize("told", [{}, {"dpi": (300, 300)}])
def test_a_pil_image_has_a_resolution_if_its_file_tells_one(format, told):
    image, file = opened(Image.fromarray(DARK), format, **told)
    assert ("dpi" in enhance(image).info) == (read_photo(file).metadata.dpi is not None) == bool(told)


def test_a_pil_image_becomes_what_its_file_becomes():
    inks = Image.fromarray(DARK).convert("CMYK")
    kinds = [(inks, {"icc_profile": inks_profile()}), (inks, {}), (Image.fromarray(DARK).convert("P"), {})]
    for image, options in kinds:
        pil, file = opened(image, "TIFF", **options)
        np.testing.assert_array_equal(np.asarray(enhance(pil, strength=0)), read_photo(file).pixels)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB"])
def test_a_pil_image_keeps_the_colour_that_is_invisible(mode):
    image = Image.fromarray(DARK).convert(mode)
    key = image.getpixel((5, 7))
    pil, file = opened(image, "PNG", transparency=key)
    photo = read_photo(file)
    assert photo.alpha[7, 5] == 0
    for strength in (0, 1):
        result = enhance(pil, strength=strength)
        assert result.mode == ("LA" if mode in "1L" else "RGBA")
        np.testing.assert_array_equal(np.asarray(result)[..., -1], photo.alpha)


@pytest.mark.parametrize("level", [0, 9_000, 65_535])
def test_a_pil_image_of_16_bit_grey_keeps_the_level_that_is_invisible(level):
    levels = np.random.default_rng(0).integers(0, 9_000, (60, 80), dtype=np.uint16)
    levels[levels == level] += 1
    levels[10:20, 30:40] = level
    pil, file = opened(Image.fromarray(levels), "PNG", transparency=level)
    hidden = read_photo(file).alpha == 0
    assert np.count_nonzero(hidden) == 100
    for strength in (0, 1):
        result = enhance(pil, strength=strength)
        assert result.mode == "I;16"
        photo = read_photo(opened(result, "PNG")[1])
        np.testing.assert_array_equal(photo.alpha == 0, hidden)
    unseen = levels.copy()
    unseen[hidden] = 30_000  # has no say
    other = enhance(opened(Image.fromarray(unseen), "PNG", transparency=30_000)[0])
    difference = np.asarray(result).astype(int)[~hidden] - np.asarray(other).astype(int)[~hidden]
    assert np.abs(difference).max() <= 1


def test_a_16_bit_tiff_whose_white_is_zero_is_seen_as_its_file_is():
    levels = np.random.default_rng(0).integers(50_000, 65_535, (60, 80), dtype=np.uint16)
    pil, file = opened(Image.fromarray(levels), "TIFF", tiffinfo={262: 0})
    photo = read_photo(file)
    assert photo.pixels.mean() < 10_000
    np.testing.assert_array_equal(np.asarray(enhance(pil, strength=0)), photo.pixels)
    np.testing.assert_array_equal(np.asarray(enhance(pil)), enhance(photo.pixels))


def test_a_pil_image_of_colour_cut_to_8_bits_keeps_the_invisible_one():
    levels = np.full((6, 7, 3), 40_000, np.uint16)
    levels[2, 3] = 50_000
    file, key = encode_photo(Photo(levels), "PNG")[0], b"tRNS" + struct.pack(">3H", 50_000, 50_000, 50_000)
    at = file.index(b"IDAT") - 4
    file = file[:at] + struct.pack(">I", 6) + key + struct.pack(">I", zlib.crc32(key)) + file[at:]
    alpha = np.asarray(enhance(Image.open(io.BytesIO(file)), strength=0))[..., 3]
    np.testing.assert_array_equal(alpha == 0, levels[..., 0] == 50_000)


@pytest.mark.parametrize("format", ["TIFF", "JPEG", "PNG", "WEBP", "AVIF"])
def test_a_pil_image_keeps_its_exif(format):
    tags = Image.Exif()
    tags[0x013B] = "Ada"
    tags.get_ifd(0x8769)[0x9003] = "2024:05:06 07:08:09"
    result = enhance(opened(Image.fromarray(DARK), format, exif=tags.tobytes())[0])
    again = opened(result, "JPEG", exif=result.info["exif"])[0].getexif()
    assert again[0x013B] == "Ada"
    assert again.get_ifd(0x8769)[0x9003] == "2024:05:06 07:08:09"
    assert not {256, 257, 273, 279} & set(again)  # how the TIFF's pixels were stored


@pytest.mark.parametrize("format", ["TIFF", "PNG"])
def test_a_turned_pil_image_is_turned_once(format):
    tags = Image.Exif()
    tags[0x0112] = 6
    given = opened(Image.fromarray(DARK), format, exif=tags)[0]
    result = enhance(given, strength=0)
    seen = opened(result, "PNG", exif=result.info.get("exif", b""))[0]
    np.testing.assert_array_equal(np.asarray(ImageOps.exif_transpose(seen)), np.rot90(DARK, -1))


def test_no_profile_is_kept_of_colours_that_were_left():
    inks = Image.fromarray(DARK).convert("CMYK")
    result = enhance(opened(inks, "JPEG", icc_profile=inks_profile(), dpi=(300, 300))[0])
    assert result.mode == "RGB"
    assert "icc_profile" not in result.info
    assert result.info["dpi"] == (300, 300)
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    for mode, profile, kept in [("P", srgb, True), ("YCbCr", srgb, True), ("HSV", lab, False), ("P", lab, False)]:
        image = Image.fromarray(DARK).convert(mode)
        image.info["icc_profile"] = profile
        assert (enhance(image).info.get("icc_profile") == profile) is kept


def test_numbers_and_bytes_of_any_kind_are_taken():
    picture = np.full((8, 8, 3), 3000, np.uint16)
    swapped = Enhancer(strength=np.float32(1))(picture.astype(">u2"))
    assert swapped.dtype == np.dtype(">u2")
    np.testing.assert_array_equal(swapped, enhance(picture))
