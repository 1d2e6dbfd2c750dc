"""Low-light enhancement: quality on pairs, good photos, certificate, speed, memory, cold start.

``python -m benchmarks lowlight``. With ``TECU_DATA=FOLDER`` the pairs in ``lol_pairs`` and ``sice_pairs`` (``low`` and
``high`` or ``ref``) and the clean photos in ``clean_bsds/val`` are measured; without it, photos inside scikit-learn,
scikit-image and Matplotlib, darkened. ``--only quality`` (or ``speed``, ``memory``, ...) takes some of the parts. The
rows of other methods are taken on every fifth pair of a set of more than 40, and of two classical methods; ``--full``
takes all pairs and all methods. ``--model FILE`` adds a row with weights of one's own. PSNR is plain: nothing is scaled
to the reference. Times are CPU time, best of several, the runs taking turns.
"""

from __future__ import annotations

import argparse
import io
import os
import resource
import subprocess
import sys
import tempfile
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


def large_photo(megapixels: float, noise: float = 1.5) -> np.ndarray:
    """A dark photograph of that size: a clean one enlarged, with texture and noise of its own."""
    clean = good_photos()[0]
    width = round((megapixels * 1e6 * clean.shape[1] / clean.shape[0]) ** 0.5)
    height = round(megapixels * 1e6 / width)
    image = np.asarray(Image.fromarray(clean).resize((width, height), Image.Resampling.BICUBIC))
    out = np.empty_like(image)
    rng = np.random.default_rng(0)
    for top in range(0, height, 256):
        strip = image[top : top + 256]
        grain = rng.standard_normal(strip.shape, dtype=np.float32)
        out[top : top + 256] = np.clip(strip * np.float32(0.15) + np.float32(noise) * grain, 0, 255)
    return out


def speed() -> None:
    encoded = io.BytesIO()
    Image.fromarray(large_photo(12.0)).save(encoded, "JPEG", quality=92)
    content = encoded.getvalue()

    def codec() -> Image.Image:
        image = Image.open(io.BytesIO(content))
        image.load()
        image.save(io.BytesIO(), "JPEG", quality=92)
        return image

    pixels = np.asarray(codec())
    plain, full = Enhancer(denoise=False), Enhancer()

    folder = tempfile.TemporaryDirectory()
    task = Task(str(Path(folder.name) / "dark.jpg"), str(Path(folder.name) / "bright.jpg"))
    Path(task.source).write_bytes(content)

    def file_to_file() -> None:
        assert process(task, Settings(denoise=False, overwrite=True)).status == "done"

    runs = {"codec": codec, "plain": lambda: plain(pixels), "denoise": lambda: full(pixels), "file": file_to_file}
    plain(pixels), full(pixels), file_to_file()
    best = interleaved(runs, 7)
    folder.cleanup()
    share = full.analyse(pixels).smoothing()[1].mean()
    print(f"12 megapixels: Pillow decodes and encodes the JPEG in {best['codec']:.3f} s; pixels to pixels "
          f"{best['plain'] / best['codec']:.2f} times that, with denoising (on {100 * share:.0f} % of the picture) "
          f"{best['denoise'] / best['codec']:.2f} times, file to file {best['file'] / best['codec']:.2f}")  # fmt: skip
    rival = zero_dce_seconds()
    ours = best["denoise"] / 12.0
    print(f"a network of Zero-DCE's shape (79,416 parameters, 8 iterations, full size): {rival:.2f} s a megapixel, "
          f"{rival / ours:.0f} times ours with denoising ({ours:.4f} s)")  # fmt: skip


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
        small = Path(folder) / "small.jpg"
        Image.fromarray(large_photo(0.25)).save(small, quality=90)
        times = []
        for _ in range(4):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [
                sys.executable,
                "-m",
                "tecu.cli.main",
                "enhance",
                str(small),
                "-o",
                str(Path(folder) / "out.jpg"),
            ]
            subprocess.run(
                [*command, "--overwrite"], capture_output=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        print(f"'tecu enhance' of a photo of 0.25 megapixels from a cold start: {min(times):.2f} s of CPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("quality", "highlights", "certificate", "speed", "memory")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts, help="some of the parts")
    parser.add_argument("--full", action="store_true", help="quality: all pairs, all methods")
    parser.add_argument("--model", help="quality: a row with these weights too")
    options = parser.parse_args()
    found = pairs() if set(options.only) & {"quality", "highlights", "certificate"} else {}
    if "speed" in options.only:
        speed()
    if "memory" in options.only:
        memory_and_cold_start()
    if "certificate" in options.only:
        certificate(found)
    if "highlights" in options.only:
        highlights(found)
    if "quality" in options.only:
        quality(found, options.full, options.model)


if __name__ == "__main__":
    main()
