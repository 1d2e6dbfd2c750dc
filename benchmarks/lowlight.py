"""Low-light enhancement: quality on pairs, good photos, colours, certificate, speed, memory, cold start.

``python -m benchmarks lowlight``. With ``TECU_DATA=FOLDER`` the pairs in ``lol_pairs`` and ``sice_pairs`` (``low`` and
``high`` or ``ref``) and the clean photos in ``clean_bsds/val`` are measured, and colours in ``lowlight/*``; without it,
photos inside scikit-learn, scikit-image and Matplotlib, darkened. ``--only quality`` (or ``speed``, ``memory``, ...)
takes some of the parts. The rows of other methods are taken on every fifth pair of a set of more than 40, and of two
classical methods; ``--full`` takes all pairs and all methods. ``--model FILE`` adds a row with weights of one's own.
PSNR is plain: nothing is scaled to the reference. Times are CPU time, best of several, the runs taking turns; those of
12 megapixels are taken on several kinds of photos at several qualities of the JPEG, because Pillow is quick on a dark
one.
"""

from __future__ import annotations

import argparse
import io
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks._timing import interleaved
from tecu.lowlight import Enhancer, model
from tecu.lowlight.batch import Settings, process
from tecu.lowlight.classical import METHODS
from tecu.lowlight.grid import shrink
from tecu.lowlight.network import default_network
from tecu.lowlight.plan import Task
from tecu.metrics import psnr, ssim
from tecu.reproduce.photo_sets import built_in, from_folder, inside_packages

CLASSICAL = ("he", "lime")
SPARSE, MANY = 5, 40


def pairs() -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    data = os.environ.get("TECU_DATA")
    sets = [from_folder(Path(data) / name) for name in ("lol_pairs", "sice_pairs")] if data else inside_packages()
    return {s.name: [(p.dark, p.reference) for p in s if p.reference is not None] for s in sets}


def good_photos() -> list[np.ndarray]:
    data = os.environ.get("TECU_DATA")
    if data:
        return [photo.dark for photo in from_folder(Path(data) / "clean_bsds" / "val")]
    return [photo.reference for photo in built_in() if photo.reference is not None]


def quality(found: dict[str, list[tuple[np.ndarray, np.ndarray]]], full: bool, model: str | None) -> None:
    """A row for each method; the means of all pairs, or of those that are named at the end of the row."""
    ours = {"untouched": lambda image: image, "tecu": Enhancer(), "tecu, no denoise": Enhancer(denoise=False)}
    if model is not None:
        ours[f"tecu, {Path(model).name}"] = Enhancer(model=model)
    others = ("paper", "pam", *(METHODS if full else CLASSICAL))
    rows = ours | {name: Enhancer(name) for name in others}
    print("plain PSNR (dB) / SSIM".ljust(26) + "".join(f"{name} ({len(ps)})".rjust(26) for name, ps in found.items()))
    for name, enhancer in rows.items():
        cells, notes = [], []
        for label, ps in found.items():
            step = 1 if full or name in ours or len(ps) <= MANY else SPARSE
            notes += [f"{len(ps[::step])} of {label}"] if step > 1 else []
            results = ((enhancer(dark), reference) for dark, reference in ps[::step])
            scores = [(psnr(result, reference), ssim(result, reference)) for result, reference in results]
            cells.append("{:.2f} / {:.3f}".format(*np.mean(scores, axis=0)))
        row = name.ljust(26) + "".join(cell.rjust(26) for cell in cells)
        print(row + (f"   ({', '.join(notes)})" if notes else ""), flush=True)


def highlights(found: dict[str, list[tuple[np.ndarray, np.ndarray]]]) -> None:
    enhancer, plain = Enhancer(), Enhancer(denoise=False)
    dark = [dark for ps in found.values() for dark, _ in ps]
    good = good_photos()
    new = [np.mean(np.any((enhancer(image) == 255) & (image < 255), axis=-1)) for image in dark + good]
    print(f"pixels newly saturated, {len(new)} photos: mean {100 * np.mean(new):.4f} %, most {100 * max(new):.4f} %")
    apart = [psnr(enhancer(image), image) for image in good]
    print(f"well-exposed photos ({len(good)}), PSNR of result to input: median {np.median(apart):.1f} dB, "
          f"lowest tenth {np.quantile(apart, 0.1):.1f} dB")  # fmt: skip
    alike = [ssim(enhancer(image), plain(image)) for image in good]
    print(f"the same, SSIM with to without denoising: lowest {min(alike):.3f}")


def colours(found: dict[str, list[tuple[np.ndarray, np.ndarray]]]) -> None:
    """By how many degrees bright warm colours move towards yellow: in the result, before its curve, in the reference.

    Pixels that are nearly white in the reference are left out, and photos with fewer than 500 others.
    """
    enhancer, plain = Enhancer(), Enhancer(denoise=False)
    for label, ps in (found | without_reference()).items():
        rows = []
        for dark, reference in ps:
            before, warm = hues(dark)
            warm &= reference.max(axis=-1) < 250
            if np.count_nonzero(warm) < 500:
                continue
            exposure = plain.analyse(dark)
            straight = replace(exposure.tone, curve=np.linspace(0.0, 1.0, len(exposure.tone.curve)))
            after = [enhancer(dark), plain.apply(dark, replace(exposure, tone=straight)), reference]
            turns = [(hues(image)[0] - before + 180.0) % 360.0 - 180.0 for image in after]
            rows.append([turn[warm].mean() for turn in turns])
        print(f"{label}: {len(rows)} photos with bright warm colours", end="\n" if not rows else "; their hue: ")
        if rows:
            result, gain, goal = np.mean(rows, axis=0)
            print(f"{result:+.1f} degrees (most {max(rows)[0]:+.1f}), before the curve {gain:+.1f}"
                  + (f", in the reference {goal:+.1f}" if label in found else ""))  # fmt: skip


def hues(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hue in CIELAB, in degrees (60 is orange, 90 yellow), and where a colour is bright, strong and red to orange."""
    from skimage.color import rgb2lab

    light, a, b = np.moveaxis(rgb2lab(image), -1, 0)
    hue = np.degrees(np.arctan2(b, a))
    return hue, (light > 25.0) & (np.hypot(a, b) > 30.0) & (hue > 40.0) & (hue < 80.0)


def without_reference() -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    """The dark photos in the folders of ``lowlight``, if there are such; each stands for its own reference."""
    data = os.environ.get("TECU_DATA")
    folders = sorted(path for path in (Path(data) / "lowlight").glob("*") if path.is_dir()) if data else []
    return {photos.name: [(photo.dark, photo.dark) for photo in photos] for photos in map(from_folder, folders)}


def certificate(found: dict[str, list[tuple[np.ndarray, np.ndarray]]]) -> None:
    visits = kept = outer = inner = holds = count = 0
    for ps in found.values():
        for dark, _ in ps:
            small = shrink(dark)
            result = model.solve(np.ascontiguousarray(small.max(axis=-1)), default_network()(small).illumination)
            count, holds = count + 1, holds + result.certificate.holds
            visits += result.iterations
            kept += result.iterations - result.certificate.fallbacks
            outer, inner = max(outer, result.iterations), max(inner, int(result.history["inner_I"].max()))
    print(f"anchored model, {count} pictures: criterion met at {100 * kept / visits:.1f} % of the visits, certificate "
          f"holds for {holds}, at most {outer} outer and {inner} inner steps")  # fmt: skip


def enlarged(photo: np.ndarray, megapixels: float, light: float = 1.0, noise: float = 0.0) -> np.ndarray:
    """``light`` times a photo of that size, with noise of its own (in levels)."""
    width = round((megapixels * 1e6 * photo.shape[1] / photo.shape[0]) ** 0.5)
    height = round(megapixels * 1e6 / width)
    out = np.array(Image.fromarray(photo).resize((width, height), Image.Resampling.BICUBIC))
    rng = np.random.default_rng(0)
    for top in range(0, height, 256):
        strip = out[top : top + 256]
        grain = rng.standard_normal(strip.shape, dtype=np.float32)
        out[top : top + 256] = np.clip(strip * np.float32(light) + np.float32(noise) * grain + 0.5, 0, 255)
    return out


def large_photo(megapixels: float) -> np.ndarray:
    """A dark and noisy photo."""
    return enlarged(good_photos()[0], megapixels, light=0.15, noise=1.5)


def kinds_of_photos() -> Iterator[tuple[str, np.ndarray]]:
    """Photos of 12 megapixels: from ``TECU_DATA``, or made from the photos inside scikit-learn and scikit-image."""
    data, good = os.environ.get("TECU_DATA"), good_photos()
    yield "dark and noisy", large_photo(12.0)
    yield "well exposed", enlarged(good[1], 12.0)
    if data is None:
        yield "very dark", enlarged(good[2], 12.0, light=0.05)
        yield "night with lamps", enlarged((255 * (good[3] / 255) ** 4).astype(np.uint8), 12.0)
        return
    for name, folder, place in (
        ("very dark", "lol_pairs/low", 0),
        ("very dark, another", "lol_pairs/low", -1),
        ("under-exposed", "sice_pairs/low", 0),
        ("night with lamps", "lowlight/LIME", 1),
        ("against the light", "lowlight/MEF17", 0),
    ):
        path = sorted((Path(data) / folder).iterdir())[place]
        yield name, enlarged(np.asarray(Image.open(path).convert("RGB")), 12.0)


GOALS = {"pixels": 1.5, "pixels, denoised": 4.0, "file": 2.5, "file, denoised": 5.0}
QUALITIES = (75, 85, 95)
ROUNDS, REPEATS = 2, 6  # a disturbance of some seconds hits one round of a picture, not both


def speed() -> None:
    """Each run as a multiple of what Pillow takes to decode and encode the same JPEG with the same quality."""
    print("12 megapixels".ljust(30) + "Pillow".rjust(9) + "".join(name.rjust(20) for name in GOALS) + "  smoothed")
    photos = [(kind, picture, quality) for kind, picture in kinds_of_photos() for quality in QUALITIES]
    rounds = [[times_of_photo(picture, quality) for _, picture, quality in photos] for _ in range(ROUNDS)]
    ratios, denoised = [], []
    for (kind, _, quality), *runs in zip(photos, *rounds, strict=True):
        best = {name: min(times[name] for times, _ in runs) for name in ("Pillow", *GOALS)}
        ratios.append([best[name] / best["Pillow"] for name in GOALS])
        denoised.append(best["pixels, denoised"])
        cells = "".join(f"{ratio:.2f}".rjust(20) for ratio in ratios[-1])
        label = f"{kind}, quality {quality}".ljust(30)
        print(f"{label}{best['Pillow']:7.3f} s{cells}{100 * runs[0][1]:8.0f} %")
    for name, row in (
        ("median", np.median(ratios, axis=0)),
        ("worst", np.max(ratios, axis=0)),
        ("goal", list(GOALS.values())),
    ):
        print(name.ljust(39) + "".join(f"{ratio:.2f}".rjust(20) for ratio in row))
    rival, ours = zero_dce_seconds(), float(np.median(denoised)) / 12.0
    print(f"a network of Zero-DCE's shape (79,416 parameters, 8 iterations, full size): {rival:.2f} s a megapixel, "
          f"{rival / ours:.0f} times ours with denoising ({ours:.4f} s, median)")  # fmt: skip


def times_of_photo(picture: np.ndarray, quality: int) -> tuple[dict[str, float], float]:
    """CPU seconds of Pillow and of ours, and the share of the picture that is smoothed."""
    encoded = io.BytesIO()
    Image.fromarray(picture).save(encoded, "JPEG", quality=quality)
    content = encoded.getvalue()

    def codec() -> Image.Image:
        image = Image.open(io.BytesIO(content))
        image.load()
        image.save(io.BytesIO(), "JPEG", quality=quality)
        return image

    pixels = np.asarray(codec())
    plain, full = Enhancer(denoise=False), Enhancer()
    with tempfile.TemporaryDirectory() as folder:
        task = Task(str(Path(folder) / "dark.jpg"), str(Path(folder) / "bright.jpg"))
        Path(task.source).write_bytes(content)

        def file_to_file(denoise: bool) -> None:
            assert process(task, Settings(denoise=denoise, overwrite=True)).status == "done"

        runs = {
            "Pillow": codec,
            "pixels": lambda: plain(pixels),
            "pixels, denoised": lambda: full(pixels),
            "file": lambda: file_to_file(False),
            "file, denoised": lambda: file_to_file(True),
        }
        for run in runs.values():
            run()
        return interleaved(runs, REPEATS), float(full.analyse(pixels).smoothing()[1].mean())


def zero_dce_seconds(side: int = 500) -> float:
    """CPU seconds a megapixel of seven 3 x 3 convolutions, 32 wide with three concatenations, and eight curve steps."""
    try:
        import torch
        import torch.nn.functional as F
    except ImportError:
        return float("nan")
    torch.set_num_threads(1)
    widths = [(3, 32), (32, 32), (32, 32), (32, 32), (64, 32), (64, 32), (64, 24)]
    layers = [torch.nn.Conv2d(a, b, 3, padding=1) for a, b in widths]
    assert sum(p.numel() for layer in layers for p in layer.parameters()) == 79_416
    image = torch.rand(1, 3, side, side)

    @torch.no_grad()
    def run() -> None:
        x1 = F.relu(layers[0](image))
        x2 = F.relu(layers[1](x1))
        x3 = F.relu(layers[2](x2))
        x4 = F.relu(layers[3](x3))
        x5 = F.relu(layers[4](torch.cat([x3, x4], 1)))
        x6 = F.relu(layers[5](torch.cat([x2, x5], 1)))
        curves = torch.tanh(layers[6](torch.cat([x1, x6], 1)))
        result = image
        for curve in torch.split(curves, 3, dim=1):
            result = result + curve * (result * result - result)

    return interleaved({"rival": run}, 3)["rival"] / (side * side / 1e6)


MEMORY = """
import resource, sys
import numpy as np
from PIL import Image
Image.MAX_IMAGE_PIXELS = None
from tecu.lowlight import Enhancer
pixels = np.asarray(Image.open(sys.argv[1]))
Enhancer()(pixels)
try:  # the kernel counts this one from the start of the program; ru_maxrss begins with the parent's memory
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak // 1024)
"""


def memory_and_cold_start() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for megapixels in (12, 100):
            path = Path(folder) / f"{megapixels}.jpg"
            Image.fromarray(large_photo(megapixels)).save(path, quality=90)
            done = subprocess.run([sys.executable, "-c", MEMORY, str(path)], capture_output=True, text=True, check=True)
            print(f"{megapixels} megapixels, decoded and enhanced: {done.stdout.strip()} MB at the peak")
        for megapixels in (0.25, 2.0):
            first, *later = cold_starts(Path(folder), megapixels)
            print(
                f"'tecu enhance' of a photo of {megapixels:g} megapixels from a cold start: {min(later):.2f} s of CPU, "
                f"{first:.2f} after an install (kernels are made for the larger one)"
            )


def cold_starts(folder: Path, megapixels: float) -> list[float]:
    """CPU seconds of a few processes; the first one finds no machine code of kernels on disk."""
    photo, times = folder / f"{megapixels}.png", []
    Image.fromarray(large_photo(megapixels)).save(photo)
    command = [sys.executable, "-m", "tecu", "enhance", str(photo), "-o", str(folder / "out.jpg"), "--overwrite"]
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_CACHE_DIR": str(folder / f"kernels-{megapixels}")}
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=True, env=settings)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("quality", "highlights", "colours", "certificate", "speed", "memory")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts, help="some of the parts")
    parser.add_argument("--full", action="store_true", help="quality: all pairs, all methods")
    parser.add_argument("--model", help="quality: a row with these weights too")
    options = parser.parse_args()
    found = pairs() if set(options.only) & {"quality", "highlights", "colours", "certificate"} else {}
    if "speed" in options.only:
        speed()
    if "memory" in options.only:
        memory_and_cold_start()
    if "certificate" in options.only:
        certificate(found)
    if "highlights" in options.only:
        highlights(found)
    if "colours" in options.only:
        colours(found)
    if "quality" in options.only:
        quality(found, options.full, options.model)


if __name__ == "__main__":
    main()
