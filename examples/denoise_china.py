"""Learn a dictionary from patches of scikit-learn's china.jpg, then denoise the picture with it.

Prints the PSNR of this dictionary and of scikit-learn's own, learned from the same patches and coded by the same rule.
``python examples/denoise_china.py`` takes about half a minute.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d

from tecu.dictionary import L0DictionaryLearning

SIDE, ATOMS, SIGMA = 8, 128, 0.1


def psnr(picture, truth):
    """Peak signal-to-noise ratio in decibels, for pictures in [0, 1]."""
    return -10 * np.log10(np.mean((picture - truth) ** 2))


def denoise(dictionary, noisy, penalty):
    """Code every patch by one rule, put the patches back, average where they overlap."""
    coder = L0DictionaryLearning(len(dictionary), penalty=penalty, init=dictionary, max_iter=1)
    coder.components_, coder.penalty_, coder.n_features_in_ = dictionary, penalty, SIDE * SIDE
    patches = extract_patches_2d(noisy, (SIDE, SIDE)).reshape(-1, SIDE * SIDE)
    mean = patches.mean(axis=1, keepdims=True)
    clean = coder.inverse_transform(coder.transform(patches - mean)) + mean
    return reconstruct_from_patches_2d(clean.reshape(-1, SIDE, SIDE), noisy.shape)


def main():
    """Learn, code, denoise, compare."""
    photo = load_sample_image("china.jpg").astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32) / 255
    photo = photo[:256, :256]
    rng = np.random.default_rng(0)
    noisy = photo + SIGMA * rng.standard_normal(photo.shape).astype(np.float32)
    patches = extract_patches_2d(noisy, (SIDE, SIDE), max_patches=10000, random_state=0).reshape(-1, SIDE * SIDE)
    patches = patches - patches.mean(axis=1, keepdims=True)
    # A coefficient must stand out of the noise: 2 log(atoms) sigma^2 / 2 is what pure noise brings at most.
    penalty = float(np.log(ATOMS) * SIGMA**2)
    print(f"noisy picture: {psnr(noisy, photo):.2f} dB")

    began = time.process_time()
    model = L0DictionaryLearning(ATOMS, penalty=penalty, random_state=0).fit(patches)
    spent = time.process_time() - began
    print(
        f"tecu: {psnr(denoise(model.components_, noisy, penalty), photo):.2f} dB, learned in {spent:.1f} s of CPU time"
    )
    print(f"  {model.certificate_.reason}")

    began = time.process_time()
    other = MiniBatchDictionaryLearning(ATOMS, alpha=1.5 * SIGMA, batch_size=256, max_iter=10, random_state=0).fit(
        patches
    )
    spent = time.process_time() - began
    atoms = other.components_ / np.maximum(np.linalg.norm(other.components_, axis=1, keepdims=True), 1e-12)
    print(f"scikit-learn: {psnr(denoise(atoms.astype(np.float32), noisy, penalty), photo):.2f} dB, in {spent:.1f} s")


if __name__ == "__main__":
    main()
