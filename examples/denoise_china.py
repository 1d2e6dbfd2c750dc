"""A dictionary for patches of a photo, and the photo denoised with it
======================================================================

Learn a dictionary from patches of scikit-learn's china.jpg, then denoise the picture with it.

Prints the PSNR of this dictionary and of scikit-learn's own, learned from the same patches and coded by the same rule,
each at the better of two penalties. Nearly all of the half minute that ``python examples/denoise_china.py`` takes is
scikit-learn's learning. The picture served to choose the constants, so take the decibels for what they are.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d

from tecu.dictionary import L0DictionaryLearning

SIDE, ATOMS, SIGMA = 8, 128, 0.1
LEARNING, CODING = 0.5, (0.8, 1.0)
"""Penalties as shares of what pure noise brings. Many patches show what no single one can, so learning takes less."""


def psnr(picture, truth):
    """Peak signal-to-noise ratio in decibels, for pictures in [0, 1]."""
    return -10 * np.log10(np.mean((picture - truth) ** 2))


def noise_gain(atoms):
    """What a coefficient of pure noise brings at most, ``log(atoms) sigma^2``: it must stand out of that."""
    return float(np.log(atoms) * SIGMA**2)


def best_psnr(dictionary, noisy, photo):
    """The PSNR at the better of two penalties."""
    gain = noise_gain(len(dictionary))
    return max(psnr(denoise(dictionary, noisy, share * gain), photo) for share in CODING)


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
    print(f"noisy picture: {psnr(noisy, photo):.2f} dB")

    for atoms in (ATOMS, 2 * ATOMS):
        began = time.process_time()
        model = L0DictionaryLearning(atoms, penalty=LEARNING * noise_gain(atoms), random_state=0).fit(patches)
        spent = time.process_time() - began
        decibels = best_psnr(model.components_, noisy, photo)
        print(f"tecu, {atoms} atoms: {decibels:.2f} dB, learned in {spent:.1f} s of CPU time")
        print(f"  {model.certificate_.reason}")

    began = time.process_time()
    other = MiniBatchDictionaryLearning(ATOMS, alpha=1.5 * SIGMA, batch_size=256, max_iter=10, random_state=0).fit(
        patches
    )
    spent = time.process_time() - began
    atoms = other.components_ / np.maximum(np.linalg.norm(other.components_, axis=1, keepdims=True), 1e-12)
    decibels = best_psnr(atoms.astype(np.float32), noisy, photo)
    print(f"scikit-learn, {ATOMS} atoms: {decibels:.2f} dB, in {spent:.1f} s")


if __name__ == "__main__":
    main()
