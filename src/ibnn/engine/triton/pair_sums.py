"""P_n(z, a)_i = (1/D) sum_k a_k s_n(z_k - z_i), every pair summed: what second order is made of."""

import triton
import triton.language as tl

from ibnn.engine.triton.nonlinearity import derivative
from ibnn.engine.triton.rows import LARGEST


@triton.jit(do_not_specialize=["D"])
def sum_pairs(
    z_ptr, a_ptr, out_ptr, D,
    ORDER: tl.constexpr, WEIGHTED: tl.constexpr, SIGMA: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program for BLOCK units of one row; it reads the whole row."""
    first = tl.program_id(0).to(tl.int64) * D
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    z = tl.load(z_ptr + first + i, mask=i < D, other=0.0)
    total = tl.zeros([BLOCK], tl.float32)
    broken = 0
    for start in range(0, D, BLOCK):
        k = start + tl.arange(0, BLOCK)
        there = k < D
        source = tl.load(z_ptr + first + k, mask=there, other=0.0)
        a = there.to(tl.float32)
        if WEIGHTED:
            a = tl.load(a_ptr + first + k, mask=there, other=0.0)
        finite = (tl.abs(source) <= LARGEST) & (tl.abs(a) <= LARGEST)
        broken += tl.sum((finite == 0).to(tl.int32))
        pairs = derivative(source[:, None] - z[None, :], ORDER, SIGMA)
        total += tl.sum(a[:, None] * pairs, 0)
    tl.store(out_ptr + first + i, tl.where(broken == 0, total / D, float("nan")), mask=i < D)
