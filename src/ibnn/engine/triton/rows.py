"""What every kernel does with its rows: read them, find their range, tell which are open."""

import triton
import triton.language as tl

# how a row stands between the kernels that try it, one after the other
OPEN = tl.constexpr(0)
SOLVED = tl.constexpr(1)
NOT_FINITE = tl.constexpr(2)

LARGEST = tl.constexpr(3e38)
EPS = tl.constexpr(1.1920929e-07)


@triton.jit
def numbered(rows, R: tl.constexpr):
    """Numbers of the R rows of this program, (R, 1), and which of them there are."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None]
    return row, row < rows


@triton.jit
def ends(ptr, there, D, BLOCK: tl.constexpr):
    """The least and the largest unit of each row (0 if it has none), and whether all are finite."""
    i = tl.arange(0, BLOCK)[None, :]
    low = tl.full(there.shape, float("inf"), tl.float32)
    high = tl.full(there.shape, float("-inf"), tl.float32)
    broken = tl.zeros(there.shape, tl.int32)
    for start in range(0, D, BLOCK):
        live = there & (start + i < D)
        x = tl.load(ptr + start + i, mask=live, other=0.0)
        # a NaN compares false, and maxima may or may not see it
        finite = tl.abs(x) <= LARGEST
        broken += tl.sum((live & (finite == 0)).to(tl.int32), 1, keep_dims=True)
        low = tl.minimum(low, tl.min(tl.where(live & finite, x, float("inf")), 1, keep_dims=True))
        high = tl.maximum(
            high, tl.max(tl.where(live & finite, x, float("-inf")), 1, keep_dims=True)
        )
    some = low <= high
    return tl.where(some, low, 0.0), tl.where(some, high, 0.0), broken == 0


@triton.jit
def accuracy_of(half, atol, resolution):
    """The accuracy wanted of scaled z: atol, or a fraction of the row's range if less."""
    near = 2.0 * resolution * half
    return tl.where(near > 0, tl.minimum(atol, near), atol)
