"""A dictionary for patches of a photo, and the photo denoised with it
======================================================================
``min 1/2 ||X - W D||^2 + penalty ||W||_0,  the rows of D of unit length,  X = patches of the noisy picture``

against scikit-learn's dictionary learning, which has ``||W||_1`` instead, on the same patches with the same seeds. One
coder judges both dictionaries by this objective and codes the picture with them, at the better of two penalties. The
picture served to choose the constants, so take the decibels for what they are.
"""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
from side_by_side import finish, options, race, show, tiles, with_psnr
from sklearn.datasets import load_sample_image
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d

from tecu.dictionary import L0DictionaryLearning

SIDE, SIGMA, LEARNING, CODING = 8, 0.1, 0.5, (0.8, 1.0)
"""Penalties are shares of what pure noise brings. Many patches show what no single one can, so learning takes less."""


def noise_gain(count):
    """What a coefficient of pure noise brings at most, ``log(atoms) sigma^2``: it must stand out of that."""
    return float(np.log(count) * SIGMA**2)


def coder(atoms, share):
    """Codes patches by these atoms, at a share of what noise brings."""
    penalty = share * noise_gain(len(atoms))
    model = L0DictionaryLearning(len(atoms), penalty=penalty, init=atoms, max_iter=1)
    model.components_, model.penalty_, model.n_features_in_ = atoms, penalty, SIDE * SIDE
    return model


def denoise(atoms, noisy, photo):
    """Code every patch, put the patches back, average where they overlap; at the better of two penalties."""
    patches = extract_patches_2d(noisy, (SIDE, SIDE)).reshape(-1, SIDE * SIDE)
    mean, tried = patches.mean(axis=1, keepdims=True), []
    for model in (coder(atoms, share) for share in CODING):
        clean = model.inverse_transform(model.transform(patches - mean)) + mean
        tried.append(reconstruct_from_patches_2d(clean.reshape(-1, SIDE, SIDE), noisy.shape))
    return min(tried, key=lambda picture: np.sum((picture - photo) ** 2))


def main():
    """Learn, code, denoise, compare."""
    args = options(__doc__)
    count, size, samples, m, passes = (1, 96, 1000, 48, 1) if args.quick else (3, 256, 10000, 128, 10)
    photo = load_sample_image("china.jpg")[256 - size : 256, 256 - size : 256] @ [0.299, 0.587, 0.114] / 255
    noisy = (photo + SIGMA * np.random.default_rng(0).standard_normal(photo.shape)).astype(np.float32)
    X = extract_patches_2d(noisy, (SIDE, SIDE), max_patches=samples, random_state=0).reshape(samples, -1)
    X = X - X.mean(axis=1, keepdims=True)

    def judged(atoms, **known):  # which counts in both times
        return -coder(atoms, LEARNING).score(X), SimpleNamespace(atoms=atoms, **known)

    def tecu(seed, m=m):
        model = L0DictionaryLearning(m, penalty=LEARNING * noise_gain(m), random_state=seed).fit(X)
        return judged(model.components_, certificate=model.certificate_)

    def scikit(seed):
        settings = {"fit_algorithm": "cd", "batch_size": 256, "max_iter": passes}  # "lars" takes six times as long
        atoms = MiniBatchDictionaryLearning(m, alpha=1.5 * SIGMA, random_state=seed, **settings).fit(X).components_
        return judged((atoms / np.maximum(np.linalg.norm(atoms, axis=1, keepdims=True), 1e-12)).astype(np.float32))

    tecu(0)  # compiles
    ours, theirs = race("dictionary", tecu, scikit, range(count), "scikit-learn")
    learned = {f"scikit-learn, {m} atoms": theirs, f"tecu, {m} atoms": ours, f"tecu, {2 * m} atoms": tecu(0, 2 * m)[1]}
    pictures = {"noisy": noisy} | {name: denoise(one.atoms, noisy, photo) for name, one in learned.items()}
    figure, axes = plt.subplots(2, 3, figsize=(12, 8))
    show(axes, with_psnr(pictures, photo), vmin=0, vmax=1)
    show(axes[1, 1:], {name: tiles(one.atoms.T, (SIDE, SIDE), 8) for name, one in list(learned.items())[:2]})
    finish(figure, args.output)


if __name__ == "__main__":
    main()
