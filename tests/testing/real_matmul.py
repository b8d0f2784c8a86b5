"""Real float32 matrix products with rows that cancel, many at a time, and what is wrong with some of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from certify import BFLOAT16
from certify.testing import Within, compare_within

BATCH = 250


def matmul(A: Any, B: Any) -> Any:
    """A product for each pair of matrices."""
    y = np.stack([a @ b for a, b in zip(A, B, strict=True)])
    return y


def batch(seed: int, K: int, runs: int = BATCH) -> dict[str, np.ndarray]:
    """`runs` pairs of unit normal matrices (2, K), (K, 2) in float32; the sums of the first row cancel nearly."""
    rng = np.random.default_rng(seed)
    A, B = (rng.standard_normal((runs, *shape)).astype(np.float32) for shape in ((2, K), (K, 2)))
    half = K // 2
    A[:, 0, half : 2 * half] = A[:, 0, :half]
    B[:, half : 2 * half] = -B[:, :half] + np.float32(1e-3) * B[:, half : 2 * half]
    return {"A": A, "B": B}


def within(actual: Any, inputs: dict[str, np.ndarray], **options: Any) -> Within:
    """How `actual` compares with its bound, in float32 unless said otherwise."""
    return compare_within(actual, matmul, inputs, **{"format": "float32", **options})


def dropped(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The last term is left out: a loop that ends too early."""
    return A[..., :-1] @ B[:, :-1]


def exchanged(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Two rows of B are exchanged: a wrong index."""
    wrong = B.copy()
    wrong[:, [0, 1]] = B[:, [1, 0]]
    return A @ wrong


def bfloat16_sums(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The products of float32 are added in bfloat16."""
    total = np.zeros((*A.shape[:2], B.shape[2]))
    for k in range(A.shape[2]):
        total = BFLOAT16.round(total + (A[:, :, k, None] * B[:, None, k]).astype(np.float64))
    return total.astype(np.float32)


def with_threads(threads: int, folder: Path, seeds: list[int], K: int, big: bool = False) -> list[np.ndarray]:
    """The products of NumPy in a process whose OpenBLAS has that many threads."""
    code = (
        "import sys, numpy as np\n"
        "from real_matmul import batch, big_batch\n"
        f"made = [(big_batch if {big} else batch)(seed, {K}) for seed in {seeds}]\n"
        "np.savez(sys.argv[1], *[given['A'] @ given['B'] for given in made])\n"
    )
    file = folder / f"threads-{threads}.npz"
    root = Path(__file__).parent
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {"PYTHONPATH": str(root), **dict.fromkeys(names, str(threads))}
    subprocess.run([sys.executable, "-c", code, str(file)], check=True, env=environment, cwd=root)
    with np.load(file) as saved:
        return [saved[name] for name in saved.files]


def big_batch(seed: int, K: int) -> dict[str, np.ndarray]:
    """One product that is large enough for a BLAS to share it among threads."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.standard_normal((1, *shape)).astype(np.float32) for name, shape in (("A", (160, K)), ("B", (K, 160)))
    }
