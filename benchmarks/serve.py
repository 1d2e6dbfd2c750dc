"""How long the page's slider waits: the preview of a 12-megapixel photo with other settings, from request to answer.

``python -m benchmarks serve`` sends a dark photo to the application itself (no network between) and moves strength,
headroom and denoising. The JPEG that the browser gets is part of the time.
"""

import io
import time

import numpy as np
from fastapi.testclient import TestClient
from PIL import Image
from skimage import data

from tecu.serve import make_app

SIZE = (4000, 3000)
ALLOWED = 150.0  # milliseconds


def photo() -> bytes:
    large = Image.fromarray(data.astronaut()).resize(SIZE, Image.Resampling.LANCZOS)
    noise = np.random.default_rng(0).normal(0, 3, (SIZE[1], SIZE[0], 3))
    dark = np.clip(0.2 * np.asarray(large) + noise, 0, 255).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(dark).save(stream, "JPEG", quality=92)
    return stream.getvalue()


def main() -> None:
    with TestClient(make_app(), base_url="http://127.0.0.1:8040") as client:
        page = f"/api/pages/{client.post('/api/pages').json()['id']}"
        content = photo()
        began = time.perf_counter()
        address = f"{page}/photos/{client.post(f'{page}/photos?name=a.jpg', content=content).json()['id']}/view"
        while client.get(address).status_code == 409:
            time.sleep(0.005)
        print(f"upload, reading and first preview of {SIZE[0]} x {SIZE[1]}: {time.perf_counter() - began:.2f} s")
        moves = {
            "strength": [{"strength": 0.5 + 0.05 * k} for k in range(20)],
            "headroom": [{"headroom": 0.6 + 0.015 * k} for k in range(20)],
            "denoise off": [{"strength": 0.5 + 0.05 * k, "denoise": False} for k in range(20)],
        }
        for name, settings in moves.items():
            spent = []
            for look in settings:
                began = time.perf_counter(), time.process_time()
                answer = client.get(address, params=look)
                spent.append((time.perf_counter() - began[0], time.process_time() - began[1]))
                assert answer.status_code == 200
            wall, cpu = 1000 * np.median(spent, axis=0)
            print(f"{name:12} median {wall:4.0f} ms, of the processor {cpu:4.0f} ms; allowed are {ALLOWED:.0f} ms")


if __name__ == "__main__":
    main()
